"""Redshift through ``redshift_connector``: each query in a read-only transaction of its own, results in binary."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from experiments.warehouse.columns import Column, Family
from experiments.warehouse.config import RedshiftConfig
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.engines.remote import PATIENCE_SECONDS, Judge, RemoteWarehouse, batches, driver
from experiments.warehouse.families import family_of
from experiments.warehouse.names import Relation
from experiments.warehouse.session import Limits

# Both views show what this user may read, external tables and shared ones of this database among them.
_RELATIONS = """
    SELECT schema_name, table_name FROM svv_all_tables
    WHERE database_name = current_database()
        AND schema_name NOT IN ('information_schema', 'pg_catalog', 'pg_internal', 'catalog_history', 'pg_automv')
    ORDER BY 1, 2
"""
_COLUMNS = """
    SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale FROM svv_all_columns
    WHERE database_name = current_database() AND schema_name = ? AND table_name = ?
    ORDER BY ordinal_position
"""
# Floats come as eight bytes, not as text of 15 digits.
_BINARY = 2
_CANCELLED = "57014"
_NO_RIGHT = "42501"


class RedshiftWarehouse(RemoteWarehouse):
    """The driver takes a whole result into memory before the limit of rows is seen. It has no call to cancel: a second
    connection asks for that."""

    dialect = Dialect.REDSHIFT

    def __init__(self, config: RedshiftConfig, *, judge: Judge, limits: Limits) -> None:
        self._driver = driver("redshift_connector", extra="redshift")
        super().__init__(limits=limits, secrets=[config.password], failures=(self._driver.Error, OSError))
        self._config = config
        self._judge = judge
        with self._translating(connecting=True):
            self._connection = self._connect()
            try:
                with closing(self._connection.cursor()) as cursor:
                    for statement in _settings(limits):
                        cursor.execute(statement)
                    cursor.execute("SELECT pg_backend_pid()")
                    self._process = int(cursor.fetchone()[0])
                # The driver's ``timeout`` was for connecting; queries have one of their own.
                self._socket().settimeout(limits.statement_seconds + 2 * PATIENCE_SECONDS)
            except BaseException:
                self._connection.close()
                raise

    def relations(self) -> tuple[Relation, ...]:
        return tuple(
            Relation(path=(schema, name), by_itself=schema == self._config.db_schema)
            for schema, name in self._rows(_RELATIONS)
        )

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        return tuple(_column(*row) for row in self._rows(_COLUMNS, relation.path))

    def _run(self, sql: str, parameters: Sequence[str]) -> Iterator[Sequence[Any]]:
        with closing(self._connection.cursor()) as cursor, self._transaction(cursor):
            cursor.paramstyle = "qmark"
            if parameters:
                cursor.execute(sql, tuple(parameters))
            else:
                cursor.execute(sql)
            yield from batches(cursor)

    @contextmanager
    def _transaction(self, cursor: Any) -> Iterator[None]:
        cursor.execute("BEGIN READ ONLY")
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")

    def _interrupt(self) -> None:
        with closing(self._connect()) as other, closing(other.cursor()) as cursor:
            cursor.execute(f"CANCEL {self._process:d}")

    def _hang_up(self) -> None:
        """The driver sees the end of its stream."""
        self._socket().shutdown(socket.SHUT_RDWR)

    def _close(self) -> None:
        self._connection.close()

    def _connect(self) -> Any:
        self._judge()
        connection = self._driver.connect(
            host=self._config.host,
            port=self._config.port,
            database=self._config.database,
            user=self._config.user,
            password=self._config.password.get_secret_value(),
            ssl=True,
            sslmode=self._config.sslmode,
            timeout=max(1, math.ceil(self._limits.connect_seconds)),
            tcp_keepalive=True,
            application_name="xngin-worker",
            client_protocol_version=_BINARY,
        )
        # No transaction but ours.
        connection.autocommit = True
        return connection

    def _socket(self) -> Any:
        """The driver's own; it has no public name."""
        return self._connection._usock

    def _code(self, error: Exception) -> str:
        match _details(error).get("C"):
            case code if code == _CANCELLED:
                return "timeout"
            case code if code == _NO_RIGHT:
                return "permission_denied"
            case None:
                # Of the driver, not of the server.
                lost = isinstance(error, (self._driver.InterfaceError, self._driver.OperationalError, OSError))
                return "connection_failed" if lost else "query_failed"
        return "query_failed"

    def _said(self, error: Exception) -> str:
        return str(_details(error).get("M") or error)


def _settings(limits: Limits) -> tuple[str, ...]:
    return (
        f"SET statement_timeout TO {limits.statement_seconds * 1000:.0f}",
        f"SET idle_session_timeout TO {max(60, math.ceil(limits.idle_seconds))}",
        "SET timezone TO 'UTC'",
        # Without it, names with capitals are folded even inside quotation marks.
        "SET enable_case_sensitive_identifier TO TRUE",
    )


def _details(error: Exception) -> dict[str, Any]:
    """The fields of the server's message, by its letters: C is the SQLSTATE, M the text."""
    return error.args[0] if error.args and isinstance(error.args[0], dict) else {}


def _column(name: str, native: str, length: int | None, precision: int | None, scale: int | None) -> Column:
    family = family_of(native)
    is_decimal = family is Family.DECIMAL
    if is_decimal and precision is not None:
        native = f"{native}({precision}, {scale or 0})"
    elif native == "character" and length is not None:
        native = f"{native}({length})"
    return Column(
        name=name,
        family=family,
        native=native,
        precision=precision if is_decimal else None,
        scale=(scale or 0) if is_decimal and precision is not None else None,
    )
