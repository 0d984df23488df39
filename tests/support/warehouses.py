"""Real warehouses for tests: a DuckDB file, and a schema of a PostgreSQL database with a role that may only read."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_network
from itertools import batched
from pathlib import Path
from typing import Any

import duckdb
import psycopg
from django.db import connection as ours
from psycopg import sql

from experiments.warehouse.addresses import Rules
from experiments.warehouse.config import parse_config
from experiments.warehouse.opening import open_warehouse
from experiments.warehouse.session import Limits, Warehouse

type Rows = Iterable[Sequence[object]]

# One row a statement takes DuckDB a millisecond each.
_ROWS_A_STATEMENT = 200

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


class WarehouseServer(ABC):
    """A place with tables that the project may read, and tests may fill."""

    engine: str
    rules: Rules
    config: dict[str, Any]

    @abstractmethod
    def execute(self, statement: str) -> None:
        """As its owner."""

    @abstractmethod
    def create(self, table: str, columns: Mapping[str, str], rows: Rows = ()) -> None:
        """A table whose columns have these native types."""

    @abstractmethod
    def close(self) -> None: ...

    def open(self, limits: Limits | None = None) -> Warehouse:
        return open_warehouse(parse_config(self.config), rules=self.rules, limits=limits or Limits())


class DuckDBFile(WarehouseServer):
    engine = "duckdb"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "warehouse.duckdb"
        self.rules = Rules(duckdb_folder=folder)
        self.config = {"type": "duckdb", "path": self.path.name}
        duckdb.connect(str(self.path)).close()

    def execute(self, statement: str) -> None:
        with duckdb.connect(str(self.path)) as connection:
            connection.execute(statement)

    def create(self, table: str, columns: Mapping[str, str], rows: Rows = ()) -> None:
        described = ", ".join(f"{_quoted(name)} {kind}" for name, kind in columns.items())
        with duckdb.connect(str(self.path)) as connection:
            connection.execute(f"CREATE TABLE {_quoted(table)} ({described})")
            connection.begin()
            for some in batched(rows, _ROWS_A_STATEMENT):
                places = ", ".join([f"({', '.join('?' for _ in columns)})"] * len(some))
                values = [value for row in some for value in row]
                connection.execute(f"INSERT INTO {_quoted(table)} VALUES {places}", values)  # noqa: S608
            connection.commit()

    def close(self) -> None:
        pass


class PostgreSQLSchema(WarehouseServer):
    """In the database of the test run; its tables are committed, and dropped with the schema."""

    engine = "postgresql"

    def __init__(self) -> None:
        settings = dict(ours.get_connection_params())
        settings.pop("cursor_factory", None)
        settings.pop("context", None)
        # Without the mark django_db no database is made for the run, and this would be the developer's own.
        assert str(settings["dbname"]).startswith("test_"), f"mark this test with django_db: {settings['dbname']}"
        self._owner = psycopg.connect(**settings, autocommit=True)
        self.schema = f"warehouse_{secrets.token_hex(4)}"
        self.role = f"reader_{secrets.token_hex(4)}"
        password = secrets.token_hex(8)
        names = {"schema": sql.Identifier(self.schema), "role": sql.Identifier(self.role)}
        for statement in (
            sql.SQL("CREATE SCHEMA {schema}").format(**names),
            sql.SQL("CREATE ROLE {role} LOGIN PASSWORD {password}").format(**names, password=sql.Literal(password)),
            sql.SQL("GRANT USAGE ON SCHEMA {schema} TO {role}").format(**names),
            sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {role}").format(**names),
            sql.SQL("ALTER ROLE {role} SET search_path = {schema}").format(**names),
            sql.SQL("SET search_path = {schema}").format(**names),
        ):
            self._owner.execute(statement)
        info = self._owner.info
        self.rules = Rules(allowed_networks=LOOPBACK)
        self.config = {
            "type": "postgresql",
            "host": info.host,
            "port": info.port,
            "database": info.dbname,
            "user": self.role,
            "password": password,
            "sslmode": "disable",
        }

    def execute(self, statement: str) -> None:
        self._owner.execute(statement.encode())

    def create(self, table: str, columns: Mapping[str, str], rows: Rows = ()) -> None:
        name = sql.Identifier(self.schema, table)
        described = [sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(kind)) for column, kind in columns.items()]
        self._owner.execute(sql.SQL("CREATE TABLE {} ({})").format(name, sql.SQL(", ").join(described)))
        with self._owner.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(name)) as copy:
            for row in rows:
                copy.write_row(row)

    def close(self) -> None:
        names = {"schema": sql.Identifier(self.schema), "role": sql.Identifier(self.role)}
        self._owner.execute(sql.SQL("DROP SCHEMA {schema} CASCADE").format(**names))
        self._owner.execute(sql.SQL("DROP OWNED BY {role}").format(**names))
        self._owner.execute(sql.SQL("DROP ROLE {role}").format(**names))
        self._owner.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
