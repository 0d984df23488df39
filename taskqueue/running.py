"""What this process holds: the claims it must renew, finish or release, and the slots its handlers occupy."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from taskqueue.handlers import Handler
from taskqueue.records import Claim


class Phase(Enum):
    WAITING = "waiting"  # claimed, its slot's thread has not begun
    RUNNING = "running"  # the handler runs within its time
    OVERDUE = "overdue"  # its time is up: told to stop, not renewed any more
    ABANDONED = "abandoned"  # settled without its handler, which still occupies the slot
    ENDED = "ended"  # the handler has ended, its finish is on the way to the table


@dataclass(kw_only=True, eq=False)
class Held:
    """One claim in this process. Its fields change under the lock of ``Running`` only."""

    claim: Claim
    handler: Handler
    deadline: float  # monotonic seconds
    claimed_at: float  # monotonic seconds
    stop: threading.Event = field(default_factory=threading.Event)
    phase: Phase = Phase.WAITING
    begun: bool = False
    lost: bool = False
    cancel: Callable[[], None] | None = None

    @property
    def fence(self) -> tuple[str, int]:
        return self.claim.id, self.claim.attempt

    def interrupt(self) -> None:
        """Tell the handler to end: through its context, and an async one by cancellation."""
        self.stop.set()
        cancel = self.cancel
        if cancel is not None:
            # Its loop may have closed since we looked; then it has ended anyway.
            with suppress(RuntimeError):
                cancel()


class Running:
    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._lock = threading.Lock()
        self._held: dict[tuple[str, int], Held] = {}
        self._occupied = 0
        self._stuck = 0

    def add(self, held: Held) -> None:
        with self._lock:
            self._held[held.fence] = held
            self._occupied += 1

    def begin(self, held: Held) -> bool:
        """The slot's thread takes the claim up; False when it was settled before that (released, overdue)."""
        with self._lock:
            if held.phase is not Phase.WAITING:
                return False
            held.phase = Phase.RUNNING
            held.begun = True
            return True

    def vacate(self, held: Held) -> bool:
        """The slot is free again; False when the claim was settled without its handler, whose result is dropped."""
        with self._lock:
            self._occupied -= 1
            if held.phase is Phase.ABANDONED:
                self._stuck -= held.begun
                return False
            held.phase = Phase.ENDED
            return True

    def abandon(self, held: Held) -> bool:
        """Stop waiting for a handler that does not return; False when it has ended in the meantime."""
        with self._lock:
            if held.phase not in (Phase.RUNNING, Phase.OVERDUE):
                return False
            held.phase = Phase.ABANDONED
            self._stuck += held.begun
            return True

    def give_back(self, held: Held) -> bool:
        """Release it without its handler, which may not have begun; False when it has ended in the meantime."""
        with self._lock:
            if held.phase in (Phase.ENDED, Phase.ABANDONED):
                return False
            held.phase = Phase.ABANDONED
            self._stuck += held.begun
            return True

    def mark_overdue(self, held: Held) -> bool:
        with self._lock:
            if held.phase is not Phase.RUNNING:
                return False
            held.phase = Phase.OVERDUE
            return True

    def mark_lost(self, fence: tuple[str, int]) -> Held | None:
        """A renewal did not find the claim. None when its handler has ended, since then our own finish may be why."""
        with self._lock:
            held = self._held.get(fence)
            if held is None or held.lost or held.phase not in (Phase.WAITING, Phase.RUNNING):
                return None
            held.lost = True
            return held

    def remove(self, held: Held) -> None:
        with self._lock:
            self._held.pop(held.fence, None)

    def all(self) -> list[Held]:
        with self._lock:
            return list(self._held.values())

    def renewable(self) -> list[Held]:
        """Claims whose lease must not run out: all but those whose time is up and those known to be lost."""
        with self._lock:
            return [
                held
                for held in self._held.values()
                if not held.lost and held.phase not in (Phase.OVERDUE, Phase.ABANDONED)
            ]

    @property
    def free(self) -> int:
        with self._lock:
            return self.slots - self._occupied

    @property
    def held(self) -> int:
        with self._lock:
            return len(self._held)

    @property
    def stuck(self) -> int:
        with self._lock:
            return self._stuck

    @property
    def last_chance_free(self) -> bool:
        """No task is held that was ever lost."""
        with self._lock:
            return not any(held.claim.lost_count for held in self._held.values())

    @property
    def suspects_free(self) -> bool:
        """No task is held that is at its last chance."""
        with self._lock:
            return not any(held.claim.last_chance for held in self._held.values())
