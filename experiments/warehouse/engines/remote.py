"""What all engines have in common whose drivers are installed only where they are needed: the driver's import, a time
limit of our own, cancellation, and errors that tell no secret."""

from __future__ import annotations

import importlib
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pydantic import SecretStr

from experiments.errors import DatasourceError
from experiments.warehouse.session import Limits, Warehouse, rows_within
from experiments.warehouse.watchdog import Watchdog

# Judges the host and returns where it leads: called right before a driver connects, as drivers look names up themselves
type Judge = Callable[[], tuple[str, ...]]

# How much longer than the server's own limit the client waits: a server that is gone enforces nothing.
PATIENCE_SECONDS = 5.0
BATCH = 1_000
_LONGEST_MESSAGE = 1_000
_WHAT = {
    "timeout": "the warehouse stopped the query, whose time was up",
    "permission_denied": "the warehouse's role may not do this",
    "query_failed": "the warehouse refused the query",
    "connection_failed": "the connection to the warehouse failed",
}


def driver(module: str, *, extra: str) -> Any:
    """The module of a driver. Raises ``DatasourceError`` (``driver_missing``) that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DatasourceError(
            f"the driver of this datasource is not installed ({error}): run pip install 'xngin-worker[{extra}]', or"
            f" uv sync --extra {extra} in a checkout",
            field="type",
            code="driver_missing",
        ) from error


class RemoteWarehouse(Warehouse):
    """``failures`` are the classes of errors that the driver raises; their text is told without ``secrets``."""

    def __init__(
        self,
        *,
        limits: Limits,
        secrets: Iterable[SecretStr | None],
        failures: tuple[type[Exception], ...],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._limits = limits
        self._secrets = tuple(secret.get_secret_value() for secret in secrets if secret is not None)
        self._failures = failures
        self._watchdog = Watchdog(
            self._stop,
            seconds=limits.statement_seconds + patience_seconds,
            hang_up=self._drop,
        )

    def fetch(self, sql: str, parameter: str | None = None) -> list[tuple[object, ...]]:
        return self._rows(sql, () if parameter is None else (parameter,))

    def cancel(self) -> None:
        self._watchdog.cancel()

    def close(self) -> None:
        # A server that is gone cannot be told goodbye.
        with suppress(*self._failures):
            self._close()

    @abstractmethod
    def _run(self, sql: str, parameters: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Rows as they come. The driver's errors are translated by the caller."""

    @abstractmethod
    def _interrupt(self) -> None:
        """Ask the server to stop the running query; from another thread. May raise what the driver raises."""

    @abstractmethod
    def _close(self) -> None:
        """May raise what the driver raises."""

    @abstractmethod
    def _code(self, error: Exception) -> str:
        """``timeout``, ``permission_denied``, ``query_failed`` or ``connection_failed``."""

    def _hang_up(self) -> None:
        """Make the driver return, whatever the server does; where it has a time limit of its own, that is enough."""
        self._interrupt()

    def _said(self, error: Exception) -> str:
        """What the driver says, in words for people."""
        return str(error)

    def _rows(self, sql: str, parameters: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        with self._watchdog.watching(), self._translating():
            return rows_within((tuple(row) for row in self._run(sql, parameters)), self._limits)

    @contextmanager
    def _translating(self, *, connecting: bool = False) -> Iterator[None]:
        try:
            yield
        except self._failures as error:
            stopped = None if connecting else self._watchdog.why()
            told = stopped or self._failure(error, "connection_failed" if connecting else self._code(error))
            # The driver's own error is the cause, unless its text would carry a secret into a log.
            raise told from (None if self._has_secret("".join(traceback.format_exception(error))) else error)

    def _failure(self, error: Exception, code: str) -> DatasourceError:
        said = self._said(error).strip()
        for secret in self._secrets:
            said = said.replace(secret, "***")
        return DatasourceError(f"{_WHAT[code]}: {said[:_LONGEST_MESSAGE]}", code=code)

    def _has_secret(self, text: str) -> bool:
        return any(secret in text for secret in self._secrets)

    def _stop(self) -> None:
        # Asked again soon, and hung up on in the end.
        with suppress(*self._failures):
            self._interrupt()

    def _drop(self) -> None:
        with suppress(*self._failures):
            self._hang_up()


def batches(cursor: Any) -> Iterator[Sequence[Any]]:
    """Rows of a DB-API cursor, some at a time."""
    while batch := cursor.fetchmany(BATCH):
        yield from batch
