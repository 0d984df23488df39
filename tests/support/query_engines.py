"""The two engines that are always here, to run the queries of warehouses on as they are: a table in, rows out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import duckdb
import psycopg
from django.db import connection as ours
from psycopg import sql

from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.pairs import Pair, encode
from experiments.warehouse.query import Query

type Rows = Iterable[Sequence[object]]


class QueryEngine(Protocol):
    dialect: Dialect

    def create(self, table: Table, rows: Rows) -> None:
        """A table of the session alone, with the columns' native types; it replaces one of the same name."""

    def fetch(self, statement: str, parameter: str) -> list[tuple[object, ...]]: ...


class DuckDB:
    dialect = Dialect.DUCKDB

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 2")

    def create(self, table: Table, rows: Rows) -> None:
        name = ".".join(_quoted(part) for part in table.path)
        columns = ", ".join(f"{_quoted(column.name)} {column.native}" for column in table.columns)
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} ({columns})")
        places = ", ".join("?" for _ in table.columns)
        for row in rows:
            self.connection.execute(f"INSERT INTO {name} VALUES ({places})", list(row))  # noqa: S608

    def fetch(self, statement: str, parameter: str) -> list[tuple[object, ...]]:
        return self.connection.execute(statement, [parameter]).fetchall()

    def close(self) -> None:
        self.connection.close()


class PostgreSQL:
    """One transaction in the database of the test run, never committed."""

    dialect = Dialect.POSTGRESQL

    def __init__(self) -> None:
        settings = ours.get_connection_params() | {"cursor_factory": psycopg.RawCursor}
        # Without the mark django_db no database is made for the run, and this would be the developer's own.
        assert str(settings["dbname"]).startswith("test_"), f"mark this test with django_db: {settings['dbname']}"
        self.connection: psycopg.Connection[tuple[object, ...]] = psycopg.connect(**settings)

    def create(self, table: Table, rows: Rows) -> None:
        described = [
            sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.native)) for column in table.columns
        ]
        columns = sql.SQL(", ").join(described)
        name = sql.Identifier(*table.path)
        self.connection.execute(sql.SQL("DROP TABLE IF EXISTS pg_temp.{}").format(name))
        self.connection.execute(sql.SQL("CREATE TEMPORARY TABLE {} ({})").format(name, columns))
        with self.connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(name)) as copy:
            for row in rows:
                copy.write_row(row)
        self.connection.execute(sql.SQL("ANALYZE {}").format(name))

    def fetch(self, statement: str, parameter: str) -> list[tuple[object, ...]]:
        return self.connection.execute(statement.encode(), [parameter]).fetchall()

    def close(self) -> None:
        self.connection.close()


def run[Row](engine: QueryEngine, query: Query[Row], pairs: Iterable[Pair]) -> tuple[Row, ...]:
    return query.parse(engine.fetch(query.sql, encode(pairs)))


def id_column(family: Family = Family.INTEGER, native: str = "BIGINT", name: str = "id") -> Column:
    precision = scale = None
    if "(" in native and family is Family.DECIMAL:
        precision, scale = (int(part) for part in native.partition("(")[2].rstrip(")").split(","))
    return Column(name=name, family=family, native=native, precision=precision, scale=scale)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
