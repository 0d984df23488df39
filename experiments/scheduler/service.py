"""The loop that finds due jobs, opens their runs, hands them to slots, and closes what ended.

It decides when; what a job does is its function's, and who may run is the ledger's: any number of these loops may run.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psycopg

from experiments.jobs.run import JobFunction, Run
from experiments.kinds import Job
from experiments.models import RunStatus
from experiments.scheduler.backlog import Backlog
from experiments.scheduler.due import DueJob, Room, look_for_due
from experiments.scheduler.execution import execute, out_of_time
from experiments.scheduler.ledger import Closing, Fate, NewRun, close_expired, close_runs, open_runs, release_orphans
from experiments.scheduler.reports import report_closed, report_expired, report_lost, report_started
from experiments.scheduler.runs import Ended, HeldRun, Phase, Runs
from experiments.scheduler.schedule import Intervals
from taskqueue.database import Connection, Database, Kept
from taskqueue.outage import Outage
from taskqueue.service import Service

# How soon a closing is tried again whose run is in the middle of a write.
_HELD_SECONDS = 0.2
# Others took all that was found: what they left is found by another look.
_BEATEN_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True)
class SchedulerPlan:
    """What the loop was told. ``max_jobs`` of 0 means no limit; ``on_end(reason)`` asks for an orderly end.

    ``on_idle`` is called by each look that finds nothing due while nothing runs here.
    """

    worker_id: str
    functions: Mapping[Job, JobFunction]
    intervals: Intervals
    lease_seconds: float
    poll_seconds: float
    job_timeout_seconds: float
    outage_seconds: float
    max_jobs: int
    on_end: Callable[[str], None]
    on_idle: Callable[[], None]


class Scheduler(Service):
    """Opens runs while it may, closes them always. ``drain`` ends opening, ``release`` gives back what still runs."""

    name = "jobs"

    def __init__(
        self,
        plan: SchedulerPlan,
        *,
        database: Database,
        runs: Runs,
        on_failure: Callable[[str, BaseException], None],
        on_drained: Callable[[], None],
    ) -> None:
        super().__init__(on_failure=on_failure)
        self._plan = plan
        self._kept = Kept(database, "jobs")
        self._runs = runs
        self._on_drained = on_drained
        self._outage = Outage(worker_id=plan.worker_id, part=self.name, limit_seconds=plan.outage_seconds)
        self._ended: deque[Ended] = deque()
        # At most half of the slots wait for one customer's warehouse.
        self._datasource_slots = max((runs.slots + 1) // 2, 1)
        self._draining = False
        self._releasing = False
        self._told_end = False
        self._told_drained = False
        self._in_doubt = False
        self._looked_at: float | None = None
        self._next_expiry = 0.0
        self._next_due = 0.0
        self._backlog = Backlog()
        self._opened = 0
        self._closed = 0
        self.released = 0

    def deliver(self, ended: Ended) -> None:
        """Take a run that is to be closed; called from slots and from the run keeper."""
        self._ended.append(ended)
        self.wake()

    def drain(self) -> None:
        self._draining = True
        self.wake()

    def release(self) -> None:
        """Give back everything that still runs, without waiting for it."""
        self._draining = True
        self._releasing = True
        self.wake()

    @property
    def moves(self) -> int:
        """Grows with each run that begins or ends."""
        return self._opened + self._closed

    @property
    def serving_now(self) -> bool:
        """The loop has been in the database lately and may open runs."""
        return self._looked_at is not None and not self._outage.lasting and not self._draining

    @property
    def outlasted(self) -> bool:
        """The loop has not turned for far longer than it ever waits: the process is to be replaced."""
        return self._looked_at is not None and time.monotonic() - self._looked_at > self._plan.poll_seconds + 60.0

    @property
    def drained(self) -> bool:
        """Nothing is held, nothing will be, and every query that was to be cancelled was told so."""
        return self._settled and not self._runs.interrupting and (self._told_drained or self.join(0.0))

    def look(self) -> float:
        self._looked_at = time.monotonic()
        if self._releasing:
            self._release_held()
        try:
            with self._kept as connection:
                waiting = self._close(connection)
                if self._in_doubt:
                    self._release_orphans(connection)
                wait = self._plan.poll_seconds if self._draining else self._open(connection)
            self._in_doubt = False
            self._outage.over()
        except psycopg.Error as error:
            self._in_doubt = True
            self._next_due = self._next_expiry = 0.0
            wait, waiting = self._outage.failed(error), False
        if self._draining:
            self._tell_when_drained()
        return min(wait, _HELD_SECONDS) if waiting else wait

    def close(self) -> None:
        if not self._told_drained:
            # Ended by a fault of its own: its runs shall not run out and be counted as losses.
            with suppress(psycopg.Error), self._kept as connection:
                self._release_held()
                self._close(connection)
                self._release_orphans(connection)
        self._kept.close()

    def _close(self, connection: Connection) -> bool:
        """Write how runs ended; True when one has to wait, since a write of its own still holds its row."""
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        closings = [end.closing for end in ended if end.closing is not None]
        try:
            fates = close_runs(connection, closings) if closings else {}
        except psycopg.Error:
            self._ended.extendleft(reversed(ended))
            raise
        waiting = False
        for end in ended:
            fate = Fate.GONE if end.closing is None else fates[end.held.run.id]
            if fate is Fate.HELD:
                self._ended.append(end)
                waiting = True
                continue
            self._closed += 1
            self._runs.remove(end.held)
            self._report(end, fate)
        return waiting

    def _report(self, end: Ended, fate: Fate) -> None:
        if fate is Fate.CLOSED and end.closing is not None:
            self.released += end.closing.status is RunStatus.RELEASED
            report_closed(end.held, end.closing, worker_id=self._plan.worker_id)
        elif not end.held.lost:
            report_lost(end.held, worker_id=self._plan.worker_id)

    def _open(self, connection: Connection) -> float:
        """Open runs of what is due for the free slots; seconds until the next look."""
        now = time.monotonic()
        if now >= self._next_expiry:
            for run in close_expired(connection, worker_id=self._plan.worker_id):
                report_expired(run, worker_id=self._plan.worker_id)
            self._next_expiry = now + min(self._plan.poll_seconds, self._plan.lease_seconds)
        room = self._room
        if room.slots <= 0:
            # A run that ends wakes us.
            return self._plan.poll_seconds
        if fitting := self._backlog.take(room):
            return self._served(connection, fitting)
        if now < self._next_due:
            return self._next_due - now
        look = look_for_due(
            connection,
            jobs=self._plan.functions,
            intervals=self._plan.intervals,
            room=self._backlog.wanted(room),
            horizon_seconds=self._plan.poll_seconds,
        )
        self._backlog.fill(look.jobs)
        # Of a burst of notifications each would be a query; half of the time is the most they get.
        self._next_due = 2 * time.monotonic() - now
        if fitting := self._backlog.take(room):
            return self._served(connection, fitting)
        if not look.due and not self._runs.held:
            self._plan.on_idle()
        if look.next_in_seconds is None:
            return self._plan.poll_seconds
        return min(look.next_in_seconds, self._plan.poll_seconds)

    def _served(self, connection: Connection, jobs: Sequence[DueJob]) -> float:
        """Open these; seconds until the next look, which is at once when slots are left."""
        opened = self._begin(connection, jobs)
        if self._plan.max_jobs and self._opened >= self._plan.max_jobs:
            self._end(f"{self._opened} jobs begun (--max-jobs)")
            return self._plan.poll_seconds
        if self._room.slots <= 0:
            return self._plan.poll_seconds
        return 0.0 if opened == len(jobs) else _BEATEN_SECONDS

    @property
    def _room(self) -> Room:
        free = self._runs.free
        if self._plan.max_jobs:
            free = min(free, self._plan.max_jobs - self._opened)
        return Room(slots=free, datasource_slots=self._datasource_slots, held_datasources=self._runs.datasources)

    def _begin(self, connection: Connection, jobs: Sequence[DueJob]) -> int:
        wanted = {due: NewRun(experiment_id=due.experiment_id, job=due.job, runs_seen=due.runs) for due in jobs}
        opened = open_runs(
            connection,
            list(wanted.values()),
            worker_id=self._plan.worker_id,
            lease_seconds=self._plan.lease_seconds,
        )
        for due, new in wanted.items():
            if new.id in opened:
                self._start(due, new)
        return len(opened)

    def _start(self, due: DueJob, new: NewRun) -> None:
        now = time.monotonic()
        held = HeldRun(
            run=Run(id=new.id, job=new.job, experiment_id=new.experiment_id),
            datasource_id=due.datasource_id,
            opened_at=now,
            deadline=now + self._plan.job_timeout_seconds,
            late_seconds=due.late_seconds,
        )
        self._runs.add(held)
        self._opened += 1
        report_started(held, worker_id=self._plan.worker_id)
        # A daemon, since a job that never returns must not keep the process from ending.
        threading.Thread(target=self._run, args=(held,), name=f"job {new.id}", daemon=True).start()

    def _run(self, held: HeldRun) -> None:
        closing = execute(self._plan.functions[held.run.job], held.run)
        overdue = held.phase is Phase.OVERDUE
        if not self._runs.vacate(held):
            self.wake()
            return
        if overdue and closing is not None and closing.status is RunStatus.FAILED:
            closing = out_of_time(held.run, f"{held.run.cancellation.reason}; {closing.message}")
        self.deliver(Ended(held=held, closing=None if held.lost else closing))

    def _release_held(self) -> None:
        for held in self._runs.all():
            if self._runs.abandon(held):
                closing = Closing(run_id=held.run.id, status=RunStatus.RELEASED)
                self._ended.append(Ended(held=held, closing=None if held.lost else closing))
                self._runs.interrupt(held, "its worker is stopping", afterwards=self.wake)

    def _release_orphans(self, connection: Connection) -> None:
        release_orphans(
            connection, worker_id=self._plan.worker_id, known_ids=[held.run.id for held in self._runs.all()]
        )

    @property
    def _settled(self) -> bool:
        return self._runs.held == 0 and not self._ended

    def _tell_when_drained(self) -> None:
        if self._settled and not self._runs.interrupting and not self._told_drained:
            self._told_drained = True
            self._on_drained()

    def _end(self, reason: str) -> None:
        if not self._told_end:
            self._told_end = True
            self._plan.on_end(reason)
