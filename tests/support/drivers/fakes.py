"""Drivers of warehouses that cannot run here: the calls that each driver documents, answered by a DuckDB in memory.

Each fake module has only what its engine uses, and keeps the keywords of its connection for tests to look at.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import duckdb

# Settings and transactions of the engines, which DuckDB has not.
_NOT_FOR_DUCKDB = re.compile(r"\s*(SET|BEGIN READ ONLY|ROLLBACK|CANCEL)\b", re.IGNORECASE)


class FakeError(Exception):
    """The driver's base class of errors; ``args[0]`` as the driver has it."""


class FakeInterfaceError(FakeError):
    pass


class FakeOperationalError(FakeError):
    pass


class Backend:
    """What stands behind one fake driver: tables to find, what was asked, and what to fail with."""

    def __init__(self) -> None:
        self.duckdb = duckdb.connect()
        self.connected: dict[str, Any] = {}
        self.statements: list[str] = []
        self.fails_with: Exception | None = None
        self.running = threading.Event()
        self.interrupted = threading.Event()
        self.closed = False
        self.started: dict[str, tuple[str, list[object] | None]] = {}

    def run(self, sql: str, parameters: Sequence[object] | Mapping[str, object] | None = None) -> Any:
        self.statements.append(sql)
        if self.fails_with is not None and not _NOT_FOR_DUCKDB.match(sql):
            raise self.fails_with
        if "wait for ever" in sql:
            self.running.set()
            self.interrupted.wait(20)
            raise FakeOperationalError("it was cancelled")
        if _NOT_FOR_DUCKDB.match(sql):
            return None
        return self.duckdb.execute(sql, parameters)

    def interrupt(self) -> None:
        self.interrupted.set()


class Cursor:
    """A DB-API cursor."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._found: Any = None

    def execute(self, sql: str, parameters: Any = None, **_: Any) -> Cursor:
        if isinstance(parameters, Mapping):
            sql = sql.replace(":pairs", "$pairs")
        if sql.startswith("SELECT pg_backend_pid"):
            sql = "SELECT 7"
        self._found = self._backend.run(sql, parameters)
        return self

    def fetchone(self) -> Any:
        return self._found.fetchone()

    def fetchmany(self, size: int) -> Any:
        return self._found.fetchmany(size)

    def cancel(self) -> None:
        self._backend.interrupt()

    def execute_async(self, sql: str, parameters: Any = None) -> dict[str, str]:
        """Only starts it; the results are waited for in another call."""
        self._backend.started["q1"] = (sql, list(parameters) if parameters else None)
        return {"queryId": "q1"}

    def get_results_from_sfqid(self, query: str) -> None:
        self.execute(*self._backend.started[query])

    def abort_query(self, query: str) -> None:
        self._backend.interrupt()

    def close(self) -> None:
        pass


class Connection:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.autocommit = False
        self._usock = SimpleNamespace(settimeout=lambda seconds: None, shutdown=lambda how: backend.interrupt())

    def cursor(self) -> Cursor:
        return Cursor(self._backend)

    def close(self) -> None:
        self._backend.closed = True


def _module(name: str, **names: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(names)
    return module


def redshift(backend: Backend) -> list[ModuleType]:
    def connect(**keywords: Any) -> Connection:
        backend.connected = keywords
        return _RedshiftConnection(backend)

    return [
        _module(
            "redshift_connector",
            connect=connect,
            Error=FakeError,
            InterfaceError=FakeInterfaceError,
            OperationalError=FakeOperationalError,
        )
    ]


class _RedshiftConnection(Connection):
    """Another connection is how its queries are cancelled."""

    def cursor(self) -> Cursor:
        return _RedshiftCursor(self._backend)


class _RedshiftCursor(Cursor):
    paramstyle = "format"

    def execute(self, sql: str, parameters: Any = None, **keywords: Any) -> Cursor:
        if sql.startswith("CANCEL "):
            self._backend.interrupt()
        return super().execute(sql, parameters, **keywords)


def snowflake(backend: Backend) -> list[ModuleType]:
    def connect(**keywords: Any) -> Connection:
        backend.connected = keywords
        return Connection(backend)

    errors = _module(
        "snowflake.connector.errors",
        Error=FakeError,
        InterfaceError=FakeInterfaceError,
        OperationalError=FakeOperationalError,
    )
    return [_module("snowflake.connector", connect=connect), errors]


def databricks(backend: Backend) -> list[ModuleType]:
    def connect(server_hostname: str, http_path: str, access_token: str | None = None, **keywords: Any) -> Connection:
        backend.connected = {
            "server_hostname": server_hostname,
            "http_path": http_path,
            "access_token": access_token,
            **keywords,
        }
        return Connection(backend)

    errors = _module(
        "databricks.sql.exc", Error=FakeError, RequestError=FakeOperationalError, InterfaceError=FakeInterfaceError
    )
    return [_module("databricks.sql", connect=connect), errors]


def trino(backend: Backend) -> list[ModuleType]:
    def connect(**keywords: Any) -> Connection:
        backend.connected = keywords
        return Connection(backend)

    class HttpError(Exception):
        pass

    class Authentication:
        def __init__(self, *secrets: str) -> None:
            self.secrets = secrets

    return [
        _module("trino.dbapi", connect=connect),
        _module(
            "trino.exceptions",
            Error=FakeError,
            HttpError=HttpError,
            TrinoConnectionError=FakeOperationalError,
            TrinoAuthError=FakeInterfaceError,
        ),
        _module("trino.auth", BasicAuthentication=Authentication, JWTAuthentication=Authentication),
    ]


def spark(backend: Backend) -> list[ModuleType]:
    class Session:
        client = SimpleNamespace(set_retry_policies=lambda policies: None, close=backend.interrupt)
        conf = SimpleNamespace(set=lambda name, value: backend.statements.append(f"{name}={value}"))

        def sql(self, text: str, args: Mapping[str, object] | None = None) -> Any:
            found = backend.run(text.replace(":pairs", "$pairs"), args)
            return SimpleNamespace(toLocalIterator=lambda: iter(found.fetchall()))

        def interruptAll(self) -> None:
            backend.interrupt()

        def stop(self) -> None:
            backend.closed = True

    class Builder:
        def remote(self, url: str) -> Any:
            backend.connected = {"url": url}
            return SimpleNamespace(create=Session)

    return [
        _module("pyspark.sql.connect.session", SparkSession=SimpleNamespace(builder=Builder())),
        _module("pyspark.sql.connect.client.retries", DefaultPolicy=lambda max_retries: max_retries),
        _module("pyspark.errors", PySparkException=FakeError),
        _module("grpc", RpcError=FakeOperationalError),
    ]


def bigquery(backend: Backend) -> list[ModuleType]:
    class Job:
        def __init__(self, sql: str, config: SimpleNamespace) -> None:
            self._sql, self._config = sql, config

        def result(self, **_: Any) -> Iterator[Any]:
            given = {one.name: one.value for one in getattr(self._config, "query_parameters", ())}
            found = backend.run(self._sql.replace("@pairs", "$pairs"), given or None)
            for row in found.fetchall():
                yield SimpleNamespace(values=lambda row=row: row)

        def cancel(self, **_: Any) -> bool:
            backend.interrupt()
            return True

    class Client:
        def __init__(self, **keywords: Any) -> None:
            backend.connected = keywords

        def query(self, sql: str, job_config: Any, **_: Any) -> Job:
            return Job(sql, job_config)

        def close(self) -> None:
            backend.closed = True

    def parameter(name: str, kind: str, value: object) -> SimpleNamespace:
        return SimpleNamespace(name=name, kind=kind, value=value)

    class Credentials:
        @staticmethod
        def from_service_account_info(info: Mapping[str, str], scopes: Sequence[str]) -> Mapping[str, str]:
            return info

    return [
        _module("google.cloud.bigquery", Client=Client, ScalarQueryParameter=parameter, QueryJobConfig=SimpleNamespace),
        _module("google.oauth2.service_account", Credentials=Credentials),
        _module(
            "google.api_core.exceptions",
            GoogleAPIError=FakeError,
            RetryError=FakeInterfaceError,
            Forbidden=FakeInterfaceError,
            Unauthorized=FakeInterfaceError,
            ServerError=FakeOperationalError,
        ),
        _module("google.auth.exceptions", GoogleAuthError=FakeInterfaceError),
    ]


FAKES = {
    "bigquery": bigquery,
    "databricks": databricks,
    "redshift": redshift,
    "snowflake": snowflake,
    "spark": spark,
    "trino": trino,
}
