"""What this process holds: the runs it must renew and close, and the slots their jobs occupy."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from experiments.jobs.run import Run
from experiments.scheduler.ledger import Closing


class Phase(Enum):
    RUNNING = "running"  # the job runs within its time
    OVERDUE = "overdue"  # its time is up: told to stop
    ABANDONED = "abandoned"  # closed without its job, which still occupies the slot
    ENDED = "ended"  # the job has ended, its closing is on the way to the ledger


@dataclass(kw_only=True, eq=False)
class HeldRun:
    """One open run in this process. Its fields change under the lock of ``Runs`` only. Times are monotonic seconds."""

    run: Run
    datasource_id: str
    opened_at: float
    deadline: float
    late_seconds: float
    phase: Phase = Phase.RUNNING
    lost: bool = False


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run that is to be closed; ``closing`` is None when somebody else has closed it."""

    held: HeldRun
    closing: Closing | None


class Runs:
    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._lock = threading.Lock()
        self._held: dict[str, HeldRun] = {}
        self._occupants: set[HeldRun] = set()
        self._interruptions = 0

    def add(self, held: HeldRun) -> None:
        with self._lock:
            self._held[held.run.id] = held
            self._occupants.add(held)

    def vacate(self, held: HeldRun) -> bool:
        """The job has ended and its slot is free; False when the run was closed without it."""
        with self._lock:
            self._occupants.discard(held)
            if held.phase is Phase.ABANDONED:
                return False
            held.phase = Phase.ENDED
            return True

    def mark_overdue(self, held: HeldRun) -> bool:
        with self._lock:
            if held.phase is not Phase.RUNNING:
                return False
            held.phase = Phase.OVERDUE
            return True

    def abandon(self, held: HeldRun) -> bool:
        """Close it without its job; False when the job has ended in the meantime."""
        with self._lock:
            if held.phase not in (Phase.RUNNING, Phase.OVERDUE):
                return False
            held.phase = Phase.ABANDONED
            return True

    def mark_lost(self, run_id: str) -> HeldRun | None:
        """A renewal did not find the run open. None when its job has ended: then our own closing may be why."""
        with self._lock:
            held = self._held.get(run_id)
            if held is None or held.lost or held.phase not in (Phase.RUNNING, Phase.OVERDUE):
                return None
            held.lost = True
            return held

    def remove(self, held: HeldRun) -> None:
        with self._lock:
            self._held.pop(held.run.id, None)

    def interrupt(self, held: HeldRun, reason: str, *, afterwards: Callable[[], None]) -> None:
        """Tell the job to stop, from a thread of its own: cancelling a query of a warehouse may take long."""

        def stop() -> None:
            try:
                held.run.cancellation.stop(reason)
            finally:
                with self._lock:
                    self._interruptions -= 1
                afterwards()

        with self._lock:
            self._interruptions += 1
        threading.Thread(target=stop, name=f"stop {held.run.id}", daemon=True).start()

    def all(self) -> list[HeldRun]:
        with self._lock:
            return list(self._held.values())

    def renewable(self) -> list[HeldRun]:
        """Runs whose lease must not run out: all but those known to be lost."""
        with self._lock:
            return [held for held in self._held.values() if not held.lost]

    @property
    def datasources(self) -> list[str]:
        """Of each occupied slot, also of those whose run was closed without its job."""
        with self._lock:
            return [held.datasource_id for held in self._occupants]

    @property
    def free(self) -> int:
        with self._lock:
            return self.slots - len(self._occupants)

    @property
    def held(self) -> int:
        with self._lock:
            return len(self._held)

    @property
    def stuck(self) -> int:
        """Slots whose job did not return although its run is closed."""
        with self._lock:
            return sum(held.phase is Phase.ABANDONED for held in self._occupants)

    @property
    def interrupting(self) -> bool:
        with self._lock:
            return self._interruptions > 0
