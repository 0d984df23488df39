"""The demo's two warehouses: a DuckDB file, and a schema of its own beside the tables in PostgreSQL.

Filled as a customer's programs would fill theirs; the worker only reads them.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, LiteralString

import duckdb
import numpy as np
import psycopg
from django.db import connection

from xngin_worker.demo.trials.population import CUSTOMERS, UNKNOWN_CUSTOMERS, Customers, Drawn

FILE = "warehouse.duckdb"
SCHEMA: LiteralString = "demo_warehouse"
CUSTOMERS_TABLE: LiteralString = "customers"
PURCHASES_TABLE: LiteralString = "purchases"

_DUCKDB_TABLE: LiteralString = (
    "CREATE TABLE customers (customer_id BIGINT PRIMARY KEY, revenue DECIMAL(12, 2), orders INTEGER, returned BOOLEAN)"
)
_POSTGRESQL_TABLES: LiteralString = f"""
    DROP SCHEMA IF EXISTS {SCHEMA} CASCADE;
    CREATE SCHEMA {SCHEMA};
    CREATE TABLE {SCHEMA}.{CUSTOMERS_TABLE} (
        customer_id text PRIMARY KEY, basket numeric(12, 2) NOT NULL, visits integer NOT NULL,
        newsletter boolean NOT NULL
    );
    CREATE TABLE {SCHEMA}.{PURCHASES_TABLE} (visitor_id text PRIMARY KEY, spent numeric(12, 2))
"""


def write_duckdb(folder: Path, customers: Customers) -> None:
    """The file is closed when this returns; the last of the customers are not in it."""
    known = CUSTOMERS - UNKNOWN_CUSTOMERS
    rows = zip(
        range(1, known + 1),
        _numbers(customers.revenue),
        customers.orders.tolist(),
        customers.returned.tolist(),
        strict=False,
    )
    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as lines:
        csv.writer(lines).writerows(rows)
        lines.flush()
        with duckdb.connect(str(folder / FILE)) as file:
            file.execute(_DUCKDB_TABLE)
            file.execute("INSERT INTO customers SELECT * FROM read_csv(?, header = false)", [lines.name])


def write_postgresql(writing: psycopg.Connection, customers: Customers, banner: Drawn) -> None:
    """Replaces the schema that an earlier demo left."""
    with writing.transaction():
        writing.execute(_POSTGRESQL_TABLES)
        known = CUSTOMERS - UNKNOWN_CUSTOMERS
        _copy(
            writing,
            f"COPY {SCHEMA}.{CUSTOMERS_TABLE} FROM STDIN",
            (
                (customer_id(number), basket, visits, newsletter)
                for number, basket, visits, newsletter in zip(
                    range(1, known + 1),
                    customers.basket.tolist(),
                    customers.visits.tolist(),
                    customers.newsletter.tolist(),
                    strict=False,
                )
            ),
        )
        _copy(
            writing,
            f"COPY {SCHEMA}.{PURCHASES_TABLE} FROM STDIN",
            ((visitor_id(number), spent) for number, spent in enumerate(_numbers(banner.outcome), start=1)),
        )
        writing.execute(f"ANALYZE {SCHEMA}.{CUSTOMERS_TABLE}, {SCHEMA}.{PURCHASES_TABLE}")


def duckdb_config(folder: Path) -> dict[str, Any]:
    """``folder`` lies in the folder of DuckDB files of the demo's settings."""
    return {"type": "duckdb", "path": f"{folder.name}/{FILE}"}


def postgresql_config() -> dict[str, Any]:
    """The database that holds our own tables, as a datasource."""
    given: Mapping[str, Any] = connection.settings_dict
    config = {
        "type": "postgresql",
        "host": given["HOST"] or "localhost",
        "port": int(given["PORT"] or 5432),
        "database": given["NAME"],
        "user": given["USER"],
        "sslmode": given["OPTIONS"].get("sslmode", "prefer"),
    }
    return {**config, "password": given["PASSWORD"]} if given["PASSWORD"] else config


def customer_id(number: int) -> str:
    return f"c{number:05}"


def visitor_id(number: int) -> str:
    return f"v{number:05}"


def _numbers(values: np.typing.NDArray[np.float64]) -> Iterator[float | None]:
    """NaN is how the population says that nothing is known."""
    return (None if value != value else value for value in values.tolist())


def _copy(writing: psycopg.Connection, statement: LiteralString, rows: Iterable[Sequence[Any]]) -> None:
    with writing.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)
