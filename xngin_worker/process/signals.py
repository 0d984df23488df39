"""Signals reach the main thread as bytes in a pipe. Needs nothing but the standard library, so that it can be first.

A Python-level signal handler that sets a ``threading.Event`` can deadlock on CPython 3.12 and 3.13: it may interrupt
the main thread inside the very lock it wants. Here the handlers do nothing; the interpreter itself writes the number.
"""

import os
import select
import signal
from collections.abc import Iterator

_STOPPING = (signal.SIGTERM, signal.SIGINT)
_WOKEN = 0


class SignalPipe:
    """SIGTERM, SIGINT and calls of ``wake`` from any thread, in the order in which they came."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def install(self) -> None:
        """Catch the signals, and keep them until somebody waits. To be called from the main thread, also twice."""
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in _STOPPING:
            signal.signal(number, _leave_it_to_the_pipe)

    def wake(self) -> None:
        try:
            os.write(self._write, bytes((_WOKEN,)))
        except BlockingIOError:
            # A full pipe wakes the reader all the same.
            return

    def wait(self, timeout_seconds: float | None) -> Iterator[int]:
        """Block until something comes or the time is up; the numbers of the signals that came."""
        select.select([self._read], [], [], timeout_seconds)
        try:
            came = os.read(self._read, 4096)
        except BlockingIOError:
            return
        for number in came:
            if number in _STOPPING:
                yield number


def _leave_it_to_the_pipe(_number: int, _frame: object) -> None:
    """Installed so that the signal does not end the process."""


pipe = SignalPipe()
