"""BigQuery through Google's client: a session is nothing but credentials, each query a job with a time limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import requests

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column, Family
from experiments.warehouse.config import BigQueryConfig
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.engines.remote import PATIENCE_SECONDS, RemoteWarehouse, driver
from experiments.warehouse.families import family_of
from experiments.warehouse.names import Relation
from experiments.warehouse.session import Limits

_SCOPES = ["https://www.googleapis.com/auth/bigquery"]
_HTTP_SECONDS = 30.0
_PAGE = 10_000
# The names of SQL for those of the older interface.
_NATIVE = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "BIGDECIMAL": "BIGNUMERIC", "DECIMAL": "NUMERIC"}
_DIGITS = {"NUMERIC": (38, 9), "BIGNUMERIC": (76, 38)}


class BigQueryWarehouse(RemoteWarehouse):
    """Nothing is sent before the first query. The client talks to the vendor's own hosts, which no config changes."""

    dialect = Dialect.BIGQUERY

    def __init__(self, config: BigQueryConfig, *, limits: Limits) -> None:
        self._bigquery = driver("google.cloud.bigquery", extra="bigquery")
        accounts = driver("google.oauth2.service_account", extra="bigquery")
        self._errors = driver("google.api_core.exceptions", extra="bigquery")
        auth_errors = driver("google.auth.exceptions", extra="bigquery")
        self._lost = (auth_errors.GoogleAuthError, self._errors.RetryError, requests.RequestException)
        super().__init__(
            limits=limits,
            secrets=[config.credentials.private_key],
            failures=(self._errors.GoogleAPIError, TimeoutError, *self._lost),
        )
        self._config = config
        self._job: Any = None
        try:
            credentials = accounts.Credentials.from_service_account_info(_key_file(config), scopes=_SCOPES)
        except ValueError as error:
            raise DatasourceError(
                "the service account's private_key cannot be read",
                field="credentials.private_key",
                code="config_invalid",
            ) from error
        self._client = self._bigquery.Client(project=config.project, credentials=credentials, location=config.location)

    def relations(self) -> tuple[Relation, ...]:
        with self._watchdog.watching(), self._translating():
            return tuple(
                Relation(
                    path=(table.project, table.dataset_id, table.table_id),
                    by_itself=table.dataset_id == self._config.dataset,
                )
                for dataset in self._datasets()
                for table in self._client.list_tables(dataset, timeout=_HTTP_SECONDS)
            )

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        project, dataset, name = relation.path
        table = self._bigquery.DatasetReference(project, dataset).table(name)
        with self._watchdog.watching(), self._translating():
            return tuple(_column(field) for field in self._client.get_table(table, timeout=_HTTP_SECONDS).schema)

    def _datasets(self) -> Iterator[Any]:
        if self._config.dataset is not None:
            yield self._bigquery.DatasetReference(self._config.project, self._config.dataset)
            return
        for dataset in self._client.list_datasets(timeout=_HTTP_SECONDS):
            yield dataset.reference

    def _run(self, sql: str, parameters: Sequence[str]) -> Iterator[Sequence[Any]]:
        try:
            self._job = self._client.query(
                sql, job_config=self._job_config(parameters), timeout=_HTTP_SECONDS, job_retry=None
            )
            found = self._job.result(
                page_size=_PAGE, timeout=self._limits.statement_seconds + PATIENCE_SECONDS, job_retry=None
            )
            for row in found:
                yield row.values()
        finally:
            self._job = None

    def _job_config(self, parameters: Sequence[str]) -> Any:
        settings: dict[str, Any] = {
            "use_legacy_sql": False,
            "job_timeout_ms": round(self._limits.statement_seconds * 1000),
            "labels": {"application": "xngin-worker"},
        }
        if parameters:
            settings["query_parameters"] = [self._bigquery.ScalarQueryParameter("pairs", "STRING", parameters[0])]
        if self._config.maximum_bytes_billed is not None:
            settings["maximum_bytes_billed"] = self._config.maximum_bytes_billed
        return self._bigquery.QueryJobConfig(**settings)

    def _interrupt(self) -> None:
        job = self._job
        if job is not None:
            job.cancel(timeout=_HTTP_SECONDS)

    def _close(self) -> None:
        self._client.close()

    def _code(self, error: Exception) -> str:
        said = str(error).lower()
        if isinstance(error, TimeoutError) or "timed out" in said:
            return "timeout"
        if isinstance(error, self._errors.Forbidden):
            return "permission_denied"
        lost = isinstance(error, (*self._lost, self._errors.Unauthorized, self._errors.ServerError))
        return "connection_failed" if lost else "query_failed"

    def _said(self, error: Exception) -> str:
        return str(getattr(error, "message", None) or error)


def _key_file(config: BigQueryConfig) -> dict[str, str]:
    told = config.credentials.model_dump(exclude={"private_key"}, exclude_none=True)
    return told | {"private_key": config.credentials.private_key.get_secret_value()}


def _column(field: Any) -> Column:
    native = _NATIVE.get(field.field_type, field.field_type)
    if field.mode == "REPEATED":
        return Column(name=field.name, family=Family.OTHER, native=f"ARRAY<{native}>")
    family = family_of(native)
    if family is not Family.DECIMAL:
        return Column(name=field.name, family=family, native=native)
    precision, scale = _DIGITS[native]
    if field.precision is not None:
        precision, scale = int(field.precision), int(field.scale or 0)
    return Column(name=field.name, family=family, native=native, precision=precision, scale=scale)
