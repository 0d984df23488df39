"""Snowflake through its own connector, at the vendor's own domain: queries run on while the client asks for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column, Family
from experiments.warehouse.config import SnowflakeConfig
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.engines.remote import Judge, RemoteWarehouse, batches, driver
from experiments.warehouse.families import family_of
from experiments.warehouse.names import Relation
from experiments.warehouse.session import Limits

# The view of the session's own database; the names of its columns are in capitals, as names without quotes are.
_RELATIONS = """
    SELECT table_catalog, table_schema, table_name, table_schema = CURRENT_SCHEMA()
    FROM information_schema.tables WHERE table_schema <> 'INFORMATION_SCHEMA' ORDER BY 1, 2, 3
"""
_COLUMNS = """
    SELECT column_name, data_type, numeric_precision, numeric_scale FROM information_schema.columns
    WHERE table_catalog = ? AND table_schema = ? AND table_name = ? ORDER BY ordinal_position
"""
_REQUEST_SECONDS = 60
# "Statement reached its statement or warehouse timeout", and the same for its time in the queue.
_TIMED_OUT = (630, 631)
# "Insufficient privileges", and "SQL access control error".
_NO_RIGHT = (3001, 3041)


class SnowflakeWarehouse(RemoteWarehouse):
    dialect = Dialect.SNOWFLAKE

    def __init__(self, config: SnowflakeConfig, *, judge: Judge, limits: Limits) -> None:
        connector = driver("snowflake.connector", extra="snowflake")
        self._errors = driver("snowflake.connector.errors", extra="snowflake")
        super().__init__(
            limits=limits,
            secrets=[config.password, config.token, config.private_key, config.private_key_passphrase],
            failures=(self._errors.Error, OSError),
        )
        credentials = _credentials(config)
        self._query: str | None = None
        judge()
        with self._translating(connecting=True):
            self._connection = connector.connect(
                account=config.account,
                host=config.host,
                user=config.user,
                **credentials,
                role=config.role,
                warehouse=config.warehouse,
                database=config.database,
                schema=config.db_schema,
                application="xngin_worker",
                paramstyle="qmark",
                autocommit=True,
                login_timeout=max(1, math.ceil(limits.connect_seconds)),
                request_timeout=_REQUEST_SECONDS,
                client_session_keep_alive=False,
                # Nothing of it is left on the worker's disk.
                client_store_temporary_credential=False,
                session_parameters={
                    "STATEMENT_TIMEOUT_IN_SECONDS": max(1, math.ceil(limits.statement_seconds)),
                    "STATEMENT_QUEUED_TIMEOUT_IN_SECONDS": max(1, math.ceil(limits.statement_seconds)),
                    "LOCK_TIMEOUT": max(1, math.ceil(limits.lock_seconds)),
                    "TIMEZONE": "UTC",
                    "QUOTED_IDENTIFIERS_IGNORE_CASE": False,
                    # A client that is gone needs no result.
                    "ABORT_DETACHED_QUERY": True,
                },
            )

    def relations(self) -> tuple[Relation, ...]:
        return tuple(
            Relation(path=(catalog, schema, name), by_itself=bool(current))
            for catalog, schema, name, current in self._rows(_RELATIONS)
        )

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        return tuple(_column(*row) for row in self._rows(_COLUMNS, relation.path))

    def _run(self, sql: str, parameters: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Started and asked for in two steps: its id is what another thread cancels it by."""
        with closing(self._connection.cursor()) as cursor:
            try:
                self._query = cursor.execute_async(sql, tuple(parameters) or None)["queryId"]
                cursor.get_results_from_sfqid(self._query)
                yield from batches(cursor)
            finally:
                self._query = None

    def _interrupt(self) -> None:
        query = self._query
        if query is not None:
            with closing(self._connection.cursor()) as cursor:
                cursor.abort_query(query)

    def _close(self) -> None:
        self._connection.close()

    def _code(self, error: Exception) -> str:
        number = getattr(error, "errno", None)
        if number in _TIMED_OUT:
            return "timeout"
        if number in _NO_RIGHT:
            return "permission_denied"
        lost = isinstance(error, (self._errors.InterfaceError, self._errors.OperationalError, OSError))
        return "connection_failed" if lost else "query_failed"

    def _said(self, error: Exception) -> str:
        return str(getattr(error, "msg", None) or error)


def _credentials(config: SnowflakeConfig) -> dict[str, Any]:
    if config.password is not None:
        return {"password": config.password.get_secret_value()}
    if config.token is not None:
        return {"authenticator": "PROGRAMMATIC_ACCESS_TOKEN", "token": config.token.get_secret_value()}
    return {"authenticator": "SNOWFLAKE_JWT", "private_key": _key(config)}


def _key(config: SnowflakeConfig) -> bytes:
    assert config.private_key is not None  # noqa: S101 - the config has exactly one credential
    passphrase = config.private_key_passphrase
    try:
        key = load_pem_private_key(
            config.private_key.get_secret_value().encode(),
            password=passphrase.get_secret_value().encode() if passphrase is not None else None,
        )
    except (ValueError, TypeError) as error:
        raise DatasourceError(
            "private_key is no private key in PEM that can be read with private_key_passphrase",
            field="private_key",
            code="config_invalid",
        ) from error
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def _column(name: str, native: str, precision: int | None, scale: int | None) -> Column:
    """All numbers without a point are NUMBER(p, 0) there."""
    family = family_of(native)
    if family is not Family.DECIMAL or precision is None:
        return Column(name=name, family=family, native=native)
    return Column(
        name=name,
        family=Family.DECIMAL if scale else Family.INTEGER,
        native=f"{native}({precision}, {scale or 0})",
        precision=int(precision),
        scale=int(scale or 0),
    )
