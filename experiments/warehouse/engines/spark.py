"""Spark through Spark Connect: a session of its own on the server for each of ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from experiments.warehouse.columns import Column
from experiments.warehouse.config import SparkConfig
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.engines.hive_catalog import columns_of, describe_table, relations_of, show_tables
from experiments.warehouse.engines.remote import Judge, RemoteWarehouse, driver
from experiments.warehouse.names import Relation
from experiments.warehouse.session import Limits
from experiments.warehouse.watchdog import Watchdog

_MAX_RETRIES = 3


class SparkWarehouse(RemoteWarehouse):
    """Spark has no time limit for statements: the watchdog interrupts, and closes the channel if that does not help."""

    dialect = Dialect.SPARK

    def __init__(self, config: SparkConfig, *, judge: Judge, limits: Limits) -> None:
        module = driver("pyspark.sql.connect.session", extra="spark")
        retries = driver("pyspark.sql.connect.client.retries", extra="spark")
        errors = driver("pyspark.errors", extra="spark")
        grpc = driver("grpc", extra="spark")
        self._lost = (grpc.RpcError, ValueError)
        super().__init__(
            limits=limits,
            secrets=[config.token],
            # A call on a closed channel is a ValueError.
            failures=(errors.PySparkException, *self._lost),
            patience_seconds=0.0,
        )
        self._config = config
        addresses = judge()
        opening = Watchdog(self._drop, seconds=limits.connect_seconds)
        with opening.watching(), self._translating(connecting=True):
            self._session = module.SparkSession.builder.remote(_url(config, addresses)).create()
            try:
                self._session.client.set_retry_policies([retries.DefaultPolicy(max_retries=_MAX_RETRIES)])
                # The first word with the server.
                self._session.conf.set("spark.sql.session.timeZone", "UTC")
            except BaseException:
                self._session.client.close()
                raise

    def relations(self) -> tuple[Relation, ...]:
        catalog, schema = self._config.catalog, self._config.db_schema
        return relations_of(self._rows(show_tables(catalog, schema)), catalog=catalog, schema=schema)

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        return columns_of(self._rows(describe_table(relation)))

    def _run(self, sql: str, parameters: Sequence[str]) -> Iterator[Sequence[Any]]:
        named = {"pairs": parameters[0]} if parameters else None
        yield from self._session.sql(sql, args=named).toLocalIterator()

    def _interrupt(self) -> None:
        self._session.interruptAll()

    def _hang_up(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None:
            session.client.close()

    def _close(self) -> None:
        self._session.stop()

    def _code(self, error: Exception) -> str:
        said = str(error)
        if "PERMISSION_DENIED" in said or "42501" in said:
            return "permission_denied"
        if "OPERATION_CANCELED" in said:
            return "timeout"
        return "connection_failed" if isinstance(error, self._lost) or "UNAVAILABLE" in said else "query_failed"


def _url(config: SparkConfig, addresses: Sequence[str]) -> str:
    """To the address that was judged, where no certificate has to match the name."""
    host = config.host if config.tls or not addresses else addresses[0]
    host = f"[{host}]" if ":" in host else host
    options = [f"use_ssl={'true' if config.tls else 'false'}", "user_agent=xngin-worker"]
    if config.token is not None:
        options.append(f"token={quote(config.token.get_secret_value(), safe='')}")
    return f"sc://{host}:{config.port}/;{';'.join(options)}"
