"""PostgreSQL through psycopg: one autocommitted statement at a time, so that no transaction ever lingers there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column
from experiments.warehouse.config import PostgreSQLConfig
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.families import family_of
from experiments.warehouse.names import Relation
from experiments.warehouse.session import Limits, Warehouse, rows_within
from experiments.warehouse.watchdog import Watchdog

# Tables of all kinds, views, materialised views and foreign tables that the role may read at least a column of.
_RELATIONS = """
    SELECT n.nspname, c.relname, pg_catalog.pg_table_is_visible(c.oid)
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p')
        AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%%'
        AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
        AND (pg_catalog.has_table_privilege(c.oid, 'SELECT') OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT'))
    ORDER BY 1, 2
""".replace("%%", "%")
_COLUMNS = """
    SELECT a.attname, pg_catalog.format_type(t.oid, NULL), pg_catalog.format_type(t.oid, t.mod), t.oid::bigint, t.mod
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_catalog.pg_type AS declared ON declared.oid = a.atttypid
    CROSS JOIN LATERAL (
        SELECT
            CASE WHEN declared.typtype = 'd' THEN declared.typbasetype ELSE declared.oid END AS oid,
            CASE WHEN declared.typtype = 'd' THEN declared.typtypmod ELSE a.atttypmod END AS mod
    ) AS t
    WHERE n.nspname = $1 AND c.relname = $2 AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
    ORDER BY a.attnum
"""
_NUMERIC = 1700
_CANCEL_SECONDS = 5.0
_BATCH = 10_000
# How much longer than the server's own limit the client waits: a server that is gone enforces nothing.
_PATIENCE_SECONDS = 5.0


class PostgreSQLWarehouse(Warehouse):
    """Every address of the host was judged before; the connection goes to that very address."""

    dialect = Dialect.POSTGRESQL

    def __init__(self, config: PostgreSQLConfig, *, hostaddr: str | None, limits: Limits) -> None:
        self._limits = limits
        self._secret = config.password.get_secret_value() if config.password else ""
        with self._translating(connecting=True):
            self._connection: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(
                _conninfo(config, hostaddr, limits),
                password=self._secret or None,
                autocommit=True,
                prepare_threshold=None,
                cursor_factory=psycopg.RawCursor,
            )
        self._watchdog = Watchdog(self._interrupt, seconds=limits.statement_seconds + _PATIENCE_SECONDS)
        try:
            self._settle()
        except BaseException:
            self.close()
            raise

    def relations(self) -> tuple[Relation, ...]:
        return tuple(
            Relation(path=(str(schema), str(name)), by_itself=bool(visible))
            for schema, name, visible in self._rows(_RELATIONS)
        )

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        return tuple(_column(*row) for row in self._rows(_COLUMNS, *relation.path))

    def fetch(self, sql: str, parameter: str | None = None) -> list[tuple[object, ...]]:
        return self._rows(sql) if parameter is None else self._rows(sql, parameter)

    def cancel(self) -> None:
        self._watchdog.cancel()

    def close(self) -> None:
        self._connection.close()

    def _settle(self) -> None:
        """By statements, since poolers refuse such options at the start."""
        limits = self._limits
        for name, value in (
            ("default_transaction_read_only", "on"),
            ("statement_timeout", f"{limits.statement_seconds * 1000:.0f}ms"),
            ("lock_timeout", f"{limits.lock_seconds * 1000:.0f}ms"),
            ("idle_in_transaction_session_timeout", f"{limits.idle_seconds * 1000:.0f}ms"),
            ("TimeZone", "UTC"),
            # A chunk's participants and metrics are sorted in memory, not on disk; compiling costs more than it saves.
            ("work_mem", "64MB"),
            ("jit", "off"),
            ("extra_float_digits", "1"),
            ("standard_conforming_strings", "on"),
        ):
            self._rows("SELECT pg_catalog.set_config($1, $2, false)", name, value)

    def _rows(self, sql: str, *parameters: str) -> list[tuple[Any, ...]]:
        with self._watchdog.watching(), self._translating():
            cursor = self._connection.cursor()
            cursor.execute(sql.encode(), parameters or None)
            return rows_within(_batches(cursor), self._limits)

    def _interrupt(self) -> None:
        """Ask the server; when it does not answer, the connection is of no use any more."""
        try:
            self._connection.cancel_safe(timeout=_CANCEL_SECONDS)
        except psycopg.Error:
            self._connection.close()

    @contextmanager
    def _translating(self, *, connecting: bool = False) -> Iterator[None]:
        try:
            yield
        except errors.QueryCanceled as error:
            ours = None if connecting else self._watchdog.why()
            raise (ours or self._error(error, "timeout", "the warehouse stopped the query")) from error
        except errors.LockNotAvailable as error:
            raise self._error(error, "timeout", "a lock in the warehouse was not to be had in time") from error
        except errors.InsufficientPrivilege as error:
            raise self._error(error, "permission_denied", "the warehouse's role may not read this") from error
        except errors.ConnectionTimeout as error:
            raise self._error(error, "connection_failed", "the warehouse did not answer in time") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            ours = None if connecting else self._watchdog.why()
            what = "the connection to the warehouse failed" if connecting else "the connection to the warehouse broke"
            lost = connecting or self._connection.closed
            raise (
                ours or self._error(error, *(("connection_failed", what) if lost else ("query_failed", _REFUSED)))
            ) from error
        except psycopg.Error as error:
            raise self._error(error, "query_failed", _REFUSED) from error

    def _error(self, error: psycopg.Error, code: str, what: str) -> DatasourceError:
        said = error.diag.message_primary or str(error)
        if self._secret:
            said = said.replace(self._secret, "***")
        return DatasourceError(f"{what}: {said.strip()}", code=code)


_REFUSED = "the warehouse refused the query"


def _conninfo(config: PostgreSQLConfig, hostaddr: str | None, limits: Limits) -> str:
    return make_conninfo(
        host=config.host,
        hostaddr=hostaddr,
        port=config.port,
        dbname=config.database,
        user=config.user,
        sslmode=config.sslmode,
        connect_timeout=max(2, round(limits.connect_seconds)),
        application_name="xngin-worker",
        client_encoding="UTF8",
        # Nothing of the worker's own: neither its certificates nor its password file.
        passfile="/dev/null",
        gssencmode="disable",
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=30_000,
    )


def _batches(cursor: psycopg.Cursor[tuple[Any, ...]]) -> Iterator[tuple[object, ...]]:
    while batch := cursor.fetchmany(_BATCH):
        yield from batch


def _column(name: str, plain: str, native: str, oid: int, modifier: int) -> Column:
    precision = scale = None
    if oid == _NUMERIC and modifier >= 4:
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        # Eleven bits with a sign since PostgreSQL 15.
        scale = scale - 0x800 if scale >= 0x400 else scale
    return Column(name=name, family=family_of(plain), native=native, precision=precision, scale=scale)
