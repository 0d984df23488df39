"""Databricks through its SQL connector: a SQL warehouse or a cluster, reached at the vendor's own domains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from experiments.warehouse.columns import Column
from experiments.warehouse.config import DatabricksConfig
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.engines.hive_catalog import columns_of, describe_table, relations_of, show_tables
from experiments.warehouse.engines.remote import Judge, RemoteWarehouse, batches, driver
from experiments.warehouse.names import Relation
from experiments.warehouse.session import Limits

_HTTP_SECONDS = 60.0
_RETRY_SECONDS = 60.0
_MAX_ATTEMPTS = 5


class DatabricksWarehouse(RemoteWarehouse):
    """A SQL warehouse that sleeps is started by the first query, which may take minutes."""

    dialect = Dialect.DATABRICKS

    def __init__(self, config: DatabricksConfig, *, judge: Judge, limits: Limits) -> None:
        sql = driver("databricks.sql", extra="databricks")
        self._errors = driver("databricks.sql.exc", extra="databricks")
        super().__init__(limits=limits, secrets=[config.access_token], failures=(self._errors.Error, OSError))
        self._config = config
        self._cursor: Any = None
        judge()
        with self._translating(connecting=True):
            self._connection = sql.connect(
                server_hostname=config.host,
                http_path=config.http_path,
                access_token=config.access_token.get_secret_value(),
                catalog=config.catalog,
                schema=config.db_schema,
                session_configuration={
                    "STATEMENT_TIMEOUT": str(max(1, math.ceil(limits.statement_seconds))),
                    "TIMEZONE": "UTC",
                },
                user_agent_entry="xngin-worker",
                # Rows come through this connection, not from addresses in a storage that the answer names.
                use_cloud_fetch=False,
                enable_telemetry=False,
                _socket_timeout=_HTTP_SECONDS,
                _retry_stop_after_attempts_count=_MAX_ATTEMPTS,
                _retry_stop_after_attempts_duration=_RETRY_SECONDS,
            )

    def relations(self) -> tuple[Relation, ...]:
        catalog, schema = self._config.catalog, self._config.db_schema
        return relations_of(self._rows(show_tables(catalog, schema)), catalog=catalog, schema=schema)

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        return columns_of(self._rows(describe_table(relation)))

    def _run(self, sql: str, parameters: Sequence[str]) -> Iterator[Sequence[Any]]:
        with closing(self._connection.cursor()) as cursor:
            self._cursor = cursor
            if parameters:
                cursor.execute(sql, {"pairs": parameters[0]})
            else:
                cursor.execute(sql)
            yield from batches(cursor)

    def _interrupt(self) -> None:
        if self._cursor is not None:
            self._cursor.cancel()

    def _close(self) -> None:
        self._connection.close()

    def _code(self, error: Exception) -> str:
        said = str(error)
        if "INSUFFICIENT_PERMISSIONS" in said or "PERMISSION_DENIED" in said:
            return "permission_denied"
        if "timed out" in said.lower() or "timeout" in said.lower():
            return "timeout"
        lost = isinstance(error, (self._errors.RequestError, self._errors.InterfaceError, OSError))
        return "connection_failed" if lost else "query_failed"
