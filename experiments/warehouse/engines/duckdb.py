"""DuckDB: a file that is opened read-only, by an engine that may touch no other file, no network and no setting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.families import family_of
from experiments.warehouse.names import Relation
from experiments.warehouse.session import Limits, Warehouse, rows_within
from experiments.warehouse.watchdog import Watchdog

_CATALOG = "warehouse"
_THREADS = 2
_BATCH = 10_000


class DuckDBWarehouse(Warehouse):
    """An engine of its own for each session, so that sessions share no setting and no cancellation."""

    dialect = Dialect.DUCKDB

    def __init__(self, path: Path, *, limits: Limits) -> None:
        self._limits = limits
        self._connection = _open(path, limits)
        self._watchdog = Watchdog(self._connection.interrupt, seconds=limits.statement_seconds)

    def relations(self) -> tuple[Relation, ...]:
        found = self._rows(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? AND NOT internal"
            " UNION ALL"
            " SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = ? AND NOT internal"
            " ORDER BY 1, 2",
            [_CATALOG, _CATALOG],
        )
        return tuple(Relation(path=(schema, name), by_itself=schema == "main") for schema, name in found)

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        found = self._rows(
            "SELECT column_name, data_type, numeric_precision, numeric_scale FROM duckdb_columns()"
            " WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index",
            [_CATALOG, *relation.path],
        )
        return tuple(_column(*row) for row in found)

    def fetch(self, sql: str, parameter: str | None = None) -> list[tuple[object, ...]]:
        return self._rows(sql, None if parameter is None else [parameter])

    def cancel(self) -> None:
        self._watchdog.cancel()

    def close(self) -> None:
        self._connection.close()

    def _rows(self, sql: str, parameters: list[str] | None) -> list[tuple[Any, ...]]:
        with self._watchdog.watching(), self._translating():
            cursor = self._connection.execute(sql, parameters)
            return rows_within(_batches(cursor), self._limits)

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except duckdb.InterruptException as error:
            raise (self._watchdog.why() or _failed(error)) from error
        except duckdb.Error as error:
            raise _failed(error) from error


def _open(path: Path, limits: Limits) -> duckdb.DuckDBPyConnection:
    try:
        connection = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "memory_limit": f"{limits.memory_megabytes}MB",
                "threads": str(_THREADS),
                "temp_directory": "",
            },
        )
    except duckdb.Error as error:
        raise DatasourceError(f"DuckDB does not start: {error}", code="connection_failed") from error
    try:
        text = str(path).replace("'", "''")
        connection.execute(f"ATTACH '{text}' AS {_CATALOG} (READ_ONLY, TYPE duckdb)")
        connection.execute(f"USE {_CATALOG}")
        connection.execute("SET TimeZone = 'UTC'")
        # A name without a table would mean a variable of the caller, if one has it.
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        connection.close()
        raise DatasourceError(
            # Where the folder lies is the operator's own business.
            f"the DuckDB file {path.name!r} cannot be opened: {_first_line(error).replace(str(path), path.name)}",
            field="path",
            code="connection_failed",
        ) from error
    return connection


def _batches(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[object, ...]]:
    while batch := cursor.fetchmany(_BATCH):
        yield from batch


def _column(name: str, native: str, precision: int | None, scale: int | None) -> Column:
    is_decimal = native.upper().startswith("DECIMAL")
    return Column(
        name=name,
        family=family_of(native),
        native=native,
        precision=precision if is_decimal else None,
        scale=scale if is_decimal else None,
    )


def _failed(error: duckdb.Error) -> DatasourceError:
    return DatasourceError(f"DuckDB refused the query: {_first_line(error)}", code="query_failed")


def _first_line(error: duckdb.Error) -> str:
    return str(error).split("\n", 1)[0]
