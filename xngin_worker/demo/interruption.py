"""What may break into the demo's main thread: a signal to stop, and the deadline of a step.

A signal is noted, and raised where the demo waits anyway; only when it does not come to such a place soon is it raised
wherever it is. An exception out of the blue can leave a lock locked or a query half done. Both exceptions are no
`Exception`, so nothing in between takes them for a fault of its own.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 3.0
_AGAIN_SECONDS = 0.2
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A person or a supervisor asked for the end. `number` is the signal's."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


class DeadlinePassed(BaseException):
    """What is under way has used up its time."""


class Interruption:
    """Raises `Stopped` after the first signal. Those that follow change nothing: the end is under way already."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._ending = False
        self._held_back = False

    def install(self) -> None:
        """From the main thread; stays until the process ends, so that its last acts cannot be broken off either."""
        for number in _STOPPING:
            signal.signal(number, self._came)
        signal.signal(signal.SIGALRM, self._alarm)

    def check(self) -> None:
        """A place where the end may begin."""
        if self._number is not None and not self._ending:
            raise Stopped(self._number)

    def pause(self, seconds: float) -> None:
        """Wait, and begin the end if it is asked for. Not for long: a signal does not shorten it."""
        self.check()
        time.sleep(seconds)
        self.check()

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """A stretch, of moments, that must not be left half done."""
        self._held_back = True
        try:
            yield
        finally:
            self._held_back = False

    @contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Raises `DeadlinePassed` when the block takes longer. Not to be nested."""
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def end(self) -> None:
        """From now on no signal breaks in: everything is being stopped."""
        self._ending = True
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _came(self, number: int, _frame: object) -> None:
        if self._number is None and not self._ending:
            self._number = number
            signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)

    def _alarm(self, _number: int, _frame: object) -> None:
        if self._held_back:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
            return
        self.check()
        raise DeadlinePassed
