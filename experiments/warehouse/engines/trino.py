"""Trino through its DB-API package. Its answers name the addresses to ask next; only those of the datasource's own host
are followed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import certifi
import requests

from experiments.warehouse.columns import Column
from experiments.warehouse.config import TrinoConfig
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.engines.described import column_of
from experiments.warehouse.engines.remote import Judge, RemoteWarehouse, batches, driver
from experiments.warehouse.names import Relation
from experiments.warehouse.session import Limits

_HTTP_SECONDS = 30.0
_MAX_ATTEMPTS = 3


class TrinoWarehouse(RemoteWarehouse):
    """Nothing is sent before the first query: a session is a set of headers."""

    dialect = Dialect.TRINO

    def __init__(self, config: TrinoConfig, *, judge: Judge, limits: Limits) -> None:
        dbapi = driver("trino.dbapi", extra="trino")
        errors = driver("trino.exceptions", extra="trino")
        self._errors = errors
        super().__init__(
            limits=limits,
            secrets=[config.password, config.token],
            failures=(errors.Error, errors.HttpError, requests.RequestException),
        )
        self._config = config
        self._cursor: Any = None
        judge()
        self._authorities = tempfile.NamedTemporaryFile(suffix=".pem")  # noqa: SIM115 - closed by close()
        self._authorities.write((config.ca_certificate or "").encode())
        self._authorities.flush()
        port = config.port or (443 if config.tls else 8080)
        self._session = _OneHost(config.host, port, judge)
        self._session.verify = self._authorities.name if config.ca_certificate else certifi.where()
        self._connection = dbapi.connect(
            host=config.host,
            port=port,
            user=config.user,
            source="xngin-worker",
            catalog=config.catalog,
            schema=config.db_schema,
            session_properties=_limited(limits),
            http_scheme="https" if config.tls else "http",
            http_session=self._session,
            auth=_auth(config),
            max_attempts=_MAX_ATTEMPTS,
            request_timeout=(limits.connect_seconds, _HTTP_SECONDS),
            # The parameter goes with its statement, in one request.
            legacy_prepared_statements=False,
            timezone="UTC",
            # Results come from the server itself, not from a storage it names.
            encoding=None,
        )

    def relations(self) -> tuple[Relation, ...]:
        found = self._rows(
            f"SELECT table_schema, table_name FROM {_quoted(self._config.catalog)}.information_schema.tables"  # noqa: S608
            " WHERE table_schema <> 'information_schema'"
            + (" AND table_schema = ?" if self._config.db_schema else "")
            + " ORDER BY 1, 2",
            (self._config.db_schema,) if self._config.db_schema else (),
        )
        return tuple(
            Relation(path=(self._config.catalog, schema, name), by_itself=schema == self._config.db_schema)
            for schema, name in found
        )

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        catalog, *rest = relation.path
        found = self._rows(
            f"SELECT column_name, data_type FROM {_quoted(catalog)}.information_schema.columns"  # noqa: S608
            " WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position",
            rest,
        )
        return tuple(column_of(name, native) for name, native in found)

    def _run(self, sql: str, parameters: Sequence[str]) -> Iterator[Sequence[Any]]:
        with closing(self._connection.cursor()) as cursor:
            self._cursor = cursor
            cursor.execute(sql, list(parameters) or None)
            yield from batches(cursor)

    def _interrupt(self) -> None:
        # Without effect until the server has said what the query's address is.
        if self._cursor is not None:
            self._cursor.cancel()

    def _close(self) -> None:
        self._authorities.close()
        self._connection.close()

    def _code(self, error: Exception) -> str:
        match getattr(error, "error_name", None):
            case "EXCEEDED_TIME_LIMIT" | "ABANDONED_QUERY":
                return "timeout"
            case "PERMISSION_DENIED":
                return "permission_denied"
            case None:
                lost = (
                    self._errors.TrinoConnectionError,
                    self._errors.TrinoAuthError,
                    self._errors.HttpError,
                    requests.RequestException,
                )
                return "connection_failed" if isinstance(error, lost) else "query_failed"
        return "query_failed"

    def _said(self, error: Exception) -> str:
        return str(getattr(error, "message", None) or error)


class _OneHost(requests.Session):
    """Requests, and redirections, to one host and port alone, which is judged each time; no proxy of the environment,
    and no password file."""

    def __init__(self, host: str, port: int, judge: Judge) -> None:
        super().__init__()
        self.trust_env = False
        self._place = (host.lower(), port)
        self._judge = judge

    def send(self, request: requests.PreparedRequest, **settings: Any) -> requests.Response:
        parts = urlsplit(str(request.url))
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if ((parts.hostname or "").lower(), port) != self._place:
            raise requests.exceptions.InvalidURL("the server names an address that is not its own")
        self._judge()
        return super().send(request, **settings)


def _limited(limits: Limits) -> dict[str, str]:
    # The first one counts the time in the queue too, and is what people wait for.
    told = f"{max(1, round(limits.statement_seconds))}s"
    return {"query_max_run_time": told, "query_max_execution_time": told}


def _auth(config: TrinoConfig) -> Any:
    if config.password is not None:
        auth = driver("trino.auth", extra="trino")
        return auth.BasicAuthentication(config.user, config.password.get_secret_value())
    if config.token is not None:
        return driver("trino.auth", extra="trino").JWTAuthentication(config.token.get_secret_value())
    return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
