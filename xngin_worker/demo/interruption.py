"""What may break into the demo's main thread: a signal to stop, once, and the deadline of a step.

Both are exceptions that are no `Exception`, so nothing in between takes them for a fault of its own.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A person or a supervisor asked for the end. `number` is the signal's."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


class DeadlinePassed(BaseException):
    """The step under way has used up its time."""


class Interruption:
    """Raises `Stopped` at the first signal. Those that follow change nothing: the end is under way already."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._told = False
        self._held_back = 0

    def install(self) -> None:
        """From the main thread; stays until the process ends, so that its last acts cannot be broken off either."""
        for number in _STOPPING:
            signal.signal(number, self._came)
        signal.signal(signal.SIGALRM, _alarm)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """A stretch that must not be left half done. What came meanwhile is raised at its end."""
        self._held_back += 1
        try:
            yield
        finally:
            self._held_back -= 1
        self._tell()

    def ignore(self) -> None:
        """From now on nothing breaks in: everything is being stopped."""
        self._told = True
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _came(self, number: int, _frame: object) -> None:
        self._number = self._number or number
        self._tell()

    def _tell(self) -> None:
        if self._number is not None and not self._told and not self._held_back:
            self._told = True
            raise Stopped(self._number)


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raises `DeadlinePassed` in the main thread when the block takes longer. Not to be nested."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _alarm(_number: int, _frame: object) -> None:
    raise DeadlinePassed
