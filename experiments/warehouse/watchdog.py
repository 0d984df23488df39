"""A time limit for engines that have none of their own, and the one place that knows why a query was stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from experiments.errors import DatasourceError

_AGAIN_SECONDS = 0.25


class Watchdog:
    """Interrupts the running query when its time is up, or when the session is cancelled from another thread.

    ``interrupt`` is called by a thread of the watchdog's own, only while a query is watched, so it never hits the next
    one; and again and again until the query ends, since an interruption that comes before the engine has begun is lost.
    A query that is not impressed for ``patience_seconds`` has ``hang_up`` called, which makes the engine's client
    return whatever the server does. Neither may raise.
    """

    def __init__(
        self,
        interrupt: Callable[[], None],
        *,
        seconds: float,
        hang_up: Callable[[], None] | None = None,
        patience_seconds: float = 5.0,
    ) -> None:
        self._interrupt = interrupt
        self._hang_up = hang_up or interrupt
        self._seconds = seconds
        self._patience_seconds = patience_seconds
        self._changed = threading.Condition()
        self._running = False
        self._timed_out = False
        self._cancelled = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around one query. Raises ``DatasourceError`` (``cancelled``) at once on a cancelled session."""
        with self._changed:
            self.check()
            self._running, self._timed_out = True, False
        watcher = threading.Thread(target=self._watch, name="time limit of a query", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            with self._changed:
                self._running = False
                self._changed.notify_all()
            watcher.join()

    def cancel(self) -> None:
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

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

    def _watch(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._running or self._cancelled, timeout=self._seconds)
            if not self._running:
                return
            self._timed_out = not self._cancelled
        first = time.monotonic()
        while True:
            patient = time.monotonic() - first < self._patience_seconds
            (self._interrupt if patient else self._hang_up)()
            with self._changed:
                if self._changed.wait_for(lambda: not self._running, timeout=_AGAIN_SECONDS):
                    return
