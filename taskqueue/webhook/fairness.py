"""No destination takes the whole worker: at most a quarter of the slots at once, the others wait their turn.

Kept per process and in memory: the worst that a restart or a second worker does is a few more requests at once.
"""

import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from taskqueue.errors import Snooze

LONGEST_WAIT_SECONDS = 300.0
SHORTEST_WAIT_SECONDS = 0.1
# What a delivery is taken to last until one was measured.
GUESSED_SECONDS = 0.1
MOST_DESTINATIONS = 4096


@dataclass(kw_only=True)
class _Destination:
    active: int = 0
    seconds: float = GUESSED_SECONDS
    next_turn: float = 0.0


class Destinations:
    """Who is being sent to, and when those who wait may try again. Safe to use from many threads."""

    def __init__(
        self,
        *,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.limit = limit
        self._clock = clock
        self._chance = chance
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Destination] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    @contextmanager
    def slot(self, destination: str) -> Iterator[None]:
        """Hold one of the destination's slots, or raise ``Snooze`` until a turn is likely.

        Turns are given out as far apart as deliveries take, so ten thousand tasks for a slow destination come back
        one after the other instead of all of them every second.
        """
        self._enter(destination)
        started = self._clock()
        try:
            yield
        finally:
            self._leave(destination, self._clock() - started)

    def _enter(self, destination: str) -> None:
        with self._lock:
            known = self._known.get(destination)
            if known is None:
                self._forget_idle()
                known = self._known[destination] = _Destination()
            self._known.move_to_end(destination)
            if known.active < self.limit:
                known.active += 1
                return
            wait = self._turn(known)
        raise Snooze(wait, f"{destination} is busy: {self.limit} deliveries to it are under way in this worker")

    def _leave(self, destination: str, seconds: float) -> None:
        with self._lock:
            known = self._known[destination]
            known.active -= 1
            # One slow answer among fast ones is no reason to make hundreds wait; several in a row are.
            seconds = min(seconds, 4 * known.seconds + GUESSED_SECONDS)
            before, known.seconds = known.seconds, known.seconds + (seconds - known.seconds) * 0.3
            if known.seconds < before:
                # Turns were given out for slower deliveries than there are: the next ones come sooner.
                now = self._clock()
                known.next_turn = now + max(known.next_turn - now, 0.0) * known.seconds / before

    def _turn(self, known: _Destination) -> float:
        now = self._clock()
        known.next_turn = max(known.next_turn, now) + known.seconds / self.limit
        wait = known.next_turn - now
        if wait <= LONGEST_WAIT_SECONDS:
            return max(wait, SHORTEST_WAIT_SECONDS) * (1 - 0.1 * self._chance())
        # Too many to give each a turn: the rest comes back spread over a time, and takes what is free then.
        known.next_turn = now + LONGEST_WAIT_SECONDS
        return LONGEST_WAIT_SECONDS * (1 - 0.5 * self._chance())

    def _forget_idle(self) -> None:
        """Make room. Those longest unused come first; one with deliveries under way stays."""
        if len(self._known) < MOST_DESTINATIONS:
            return
        idle = [name for name, known in self._known.items() if known.active == 0]
        for name in idle[: MOST_DESTINATIONS // 4]:
            del self._known[name]


_of_this_process = Destinations(limit=4)


def configure(*, slots: int) -> None:
    """Tell how many task slots this process has; the worker does so when it starts."""
    _of_this_process.limit = max(1, slots // 4)


def of_this_process() -> Destinations:
    return _of_this_process
