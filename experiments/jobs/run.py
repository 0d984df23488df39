"""One run of a maintenance job as the job sees it: its fence, how it is told to stop, and what it leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import connection, transaction

from experiments.errors import ExperimentError
from experiments.kinds import Job


class RunLost(Exception):
    """The run is no longer open: another worker closed it. What it did since then must not count."""


class RunCancelled(ExperimentError):
    """The run was told to stop: its time was up, or the worker is stopping."""

    code = "cancelled"


class Cancellation:
    """Tells a run to stop. ``stop`` may be called from any thread, and calls what was registered, such as a query's
    cancel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._callbacks: list[Callable[[], None]] = []

    @property
    def reason(self) -> str | None:
        return self._reason

    def stop(self, reason: str) -> None:
        """Only the first reason counts."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()

    def check(self) -> None:
        """Raises ``RunCancelled`` once the run was told to stop."""
        if self._reason is not None:
            raise RunCancelled(self._reason)

    @contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call ``callback`` when the run is told to stop within the block; at once if it was before."""
        with self._lock:
            stopped = self._reason is not None
            self._callbacks.append(callback)
        try:
            if stopped:
                callback()
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)


@dataclass(frozen=True, kw_only=True)
class Run:
    """``id`` is the fence: writes are made within ``writing``."""

    id: str
    job: Job
    experiment_id: str
    cancellation: Cancellation = field(default_factory=Cancellation, repr=False)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that commits only while the run is open; raises ``RunLost`` when it is not.

        The run's row stays locked until the commit: nobody can close the run as lost meanwhile, and writes that come
        later are refused. A worker that stands still between two statements of the block loses its transaction after
        a minute, or it would hold the experiment for good.
        """
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT set_config('idle_in_transaction_session_timeout', '60s', true)"
                    " FROM job_runs WHERE id = %s AND status = 'running' FOR NO KEY UPDATE",
                    [self.id],
                )
                if cursor.fetchone() is None:
                    raise RunLost(self.id)
            yield


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run leaves in the ledger. Raising an exception is how a run fails."""

    message: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


type JobFunction = Callable[[Run], Outcome]
