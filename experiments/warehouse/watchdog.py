"""A time limit for engines that have none of their own, and the one place that knows why a query was stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from experiments.errors import DatasourceError


class Watchdog:
    """Interrupts the running query when its time is up, or when the session is cancelled from another thread.

    ``interrupt`` is called only while a query is watched, so it never hits the next one.
    """

    def __init__(self, interrupt: Callable[[], None], *, seconds: float) -> None:
        self._interrupt = interrupt
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running = False
        self._timed_out = False
        self._cancelled = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around one query. Raises ``DatasourceError`` (``cancelled``) at once on a cancelled session."""
        with self._lock:
            self.check()
            self._running, self._timed_out = True, False
        timer = threading.Timer(self._seconds, self._time_out)
        timer.daemon = True
        timer.name = "time limit of a query"
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                self._running = False
            timer.join()

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._running:
                self._interrupt()

    def check(self) -> None:
        if self._cancelled:
            raise DatasourceError("the session with the warehouse was cancelled", code="cancelled")

    def why(self) -> DatasourceError | None:
        """The reason of an interruption, if it was one of ours."""
        if self._cancelled:
            return DatasourceError("the query was cancelled", code="cancelled")
        if self._timed_out:
            return DatasourceError(
                f"the query was stopped after {self._seconds:g} s, the time limit of a query", code="timeout"
            )
        return None

    def _time_out(self) -> None:
        with self._lock:
            if self._running:
                self._timed_out = True
                self._interrupt()
