"""What handlers of all worker processes report, in one mapped file: cheap for them, free for the database.

Monotonic time is the same clock in every process of one machine, so instants of different processes compare.
"""

import mmap
import os
import threading
import time
from pathlib import Path

PLACES = 64
_FIRST, _LAST, _COUNT = range(3)
_FIELDS = 3


class Tally:
    """One place for each worker process: when its first and its latest handler started, and how many did."""

    def __init__(self, path: Path) -> None:
        size = PLACES * _FIELDS * 8
        if not path.exists():
            path.write_bytes(bytes(size))
        descriptor = os.open(path, os.O_RDWR)
        self._numbers = memoryview(mmap.mmap(descriptor, size)).cast("q")
        os.close(descriptor)
        self._lock = threading.Lock()

    def handler_started(self, place: int) -> None:
        now = time.monotonic_ns()
        at = place * _FIELDS
        with self._lock:
            if not self._numbers[at + _FIRST]:
                self._numbers[at + _FIRST] = now
            self._numbers[at + _LAST] = now
            self._numbers[at + _COUNT] += 1

    def reset(self) -> None:
        """To be called while no worker runs."""
        for index in range(PLACES * _FIELDS):
            self._numbers[index] = 0

    def counts(self) -> list[int]:
        return [self._numbers[place * _FIELDS + _COUNT] for place in range(PLACES)]

    @property
    def total(self) -> int:
        return sum(self.counts())

    @property
    def first_ns(self) -> int:
        return min(first for place in range(PLACES) if (first := self._numbers[place * _FIELDS + _FIRST]))

    @property
    def last_ns(self) -> int:
        return max(self._numbers[place * _FIELDS + _LAST] for place in range(PLACES))
