"""PostgreSQL through psycopg: each query in a read-only transaction that brings its settings, so that it works through
a pooler and leaves nothing behind there."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, cast

import certifi
import psycopg
from psycopg import capabilities, errors
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

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
        AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
        AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
        AND (pg_catalog.has_table_privilege(c.oid, 'SELECT') OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT'))
    ORDER BY 1, 2
"""
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
_BATCH = 1_000
# How much longer than the server's own limit the client waits: a server that is gone enforces nothing.
_PATIENCE_SECONDS = 5.0
# A host's addresses are tried one after the other, within the time for all.
_MOST_ADDRESSES = 3
_NO_FILE = "/dev/null/none"


class PostgreSQLWarehouse(Warehouse):
    """The connection goes to one of ``addresses``, which were judged before; without any, to the socket in
    ``config.host``."""

    dialect = Dialect.POSTGRESQL

    def __init__(self, config: PostgreSQLConfig, *, addresses: Sequence[str], limits: Limits) -> None:
        self._limits = limits
        self._begin = _begin(limits)
        self._secret = config.password.get_secret_value() if config.password else ""
        # Kept until the end: asking the server to cancel is another connection.
        self._authorities = tempfile.NamedTemporaryFile(suffix=".pem")  # noqa: SIM115 - closed by close()
        self._authorities.write((config.ca_certificate or "").encode())
        self._authorities.flush()
        self._watchdog = Watchdog(
            self._interrupt, seconds=limits.statement_seconds + _PATIENCE_SECONDS, hang_up=self._hang_up
        )
        try:
            with self._translating(connecting=True):
                self._connection: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(
                    _conninfo(config, addresses[:_MOST_ADDRESSES], self._authorities.name, limits),
                    password=self._secret,
                    autocommit=True,
                    prepare_threshold=None,
                    cursor_factory=psycopg.RawCursor,
                )
        except BaseException:
            self._authorities.close()
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
        self._authorities.close()

    def _rows(self, sql: str, *parameters: str) -> list[tuple[Any, ...]]:
        with self._watchdog.watching(), self._translating(), self._transaction():
            # Row by row, since a client of PostgreSQL takes the whole result into memory otherwise.
            size = _BATCH if capabilities.has_stream_chunked() else 1
            streamed = self._connection.cursor().stream(sql.encode(), parameters or None, size=size)
            with closing(cast("Generator[tuple[Any, ...]]", streamed)) as rows:
                return rows_within(rows, self._limits)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """In two round trips. There is nothing to commit."""
        self._connection.execute(self._begin)
        try:
            yield
        finally:
            if self._connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                self._connection.execute("ROLLBACK")

    def _interrupt(self) -> None:
        """Ask the server; when it does not answer, the connection is of no use any more."""
        try:
            self._connection.cancel_safe(timeout=_CANCEL_SECONDS)
        except psycopg.Error:
            self._hang_up()

    def _hang_up(self) -> None:
        """The thread that waits for the server sees the end of its stream; closing the connection would not wake it."""
        with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as ours:
            # It raises when the connection is gone already.
            ours.shutdown(socket.SHUT_RDWR)

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


def _begin(limits: Limits) -> bytes:
    settings = {
        "statement_timeout": f"{limits.statement_seconds * 1000:.0f}ms",
        "lock_timeout": f"{limits.lock_seconds * 1000:.0f}ms",
        "idle_in_transaction_session_timeout": f"{limits.idle_seconds * 1000:.0f}ms",
        # Compiling costs more than it saves in a query that runs once a chunk.
        "jit": "off",
        "TimeZone": "UTC",
        "extra_float_digits": "1",
        "standard_conforming_strings": "on",
    }
    told = "".join(f"; SET LOCAL {name} = '{value}'" for name, value in settings.items())
    return f"BEGIN TRANSACTION READ ONLY{told}".encode()


def _conninfo(config: PostgreSQLConfig, addresses: Sequence[str], authorities: str, limits: Limits) -> str:
    """Nothing of the worker's own is used: neither its certificates, its passwords nor its options. What is empty here
    is not taken from its environment."""
    verifies = config.sslmode.startswith("verify")
    return make_conninfo(
        host=",".join([config.host] * max(len(addresses), 1)),
        hostaddr=",".join(addresses),
        options="",
        port=config.port,
        dbname=config.database,
        user=config.user,
        sslmode=config.sslmode,
        sslrootcert=(authorities if config.ca_certificate else certifi.where()) if verifies else _NO_FILE,
        sslcert=_NO_FILE,
        sslkey=_NO_FILE,
        # For each address; less than two seconds are not possible.
        connect_timeout=max(2, round(limits.connect_seconds / max(len(addresses), 1))),
        application_name="xngin-worker",
        client_encoding="UTF8",
        passfile=_NO_FILE,
        gssencmode="disable",
        target_session_attrs="any",
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=30_000,
    )


def _column(name: str, plain: str, native: str, oid: int, modifier: int) -> Column:
    precision = scale = None
    if oid == _NUMERIC and modifier >= 4:
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        # Eleven bits with a sign since PostgreSQL 15.
        scale = scale - 0x800 if scale >= 0x400 else scale
    return Column(name=name, family=family_of(plain), native=native, precision=precision, scale=scale)
