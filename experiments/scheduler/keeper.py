"""The run keeper: renews the leases of the runs this process holds, and ends those whose time is up.

It has a thread and a connection of its own, so that neither a busy scheduler nor a job that blocks can make a lease
run out.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from experiments.scheduler.execution import out_of_time
from experiments.scheduler.ledger import renew_runs
from experiments.scheduler.reports import report_lost, report_stuck
from experiments.scheduler.runs import Ended, HeldRun, Phase, Runs
from taskqueue.database import Connection, Database, Kept
from taskqueue.outage import Outage
from taskqueue.service import Service

# How long a job that was told to stop may take before its run is closed without it.
_LONGEST_GRACE_SECONDS = 10.0
# How soon a lease is renewed whose run was in the middle of a write.
_HELD_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class RunKeeperPlan:
    """``deliver`` takes runs that are to be closed without their job; ``freed`` hears when one was told to stop."""

    worker_id: str
    lease_seconds: float
    job_timeout_seconds: float
    outage_seconds: float
    deliver: Callable[[Ended], None]
    freed: Callable[[], None]
    on_all_stuck: Callable[[], None]


class RunKeeper(Service):
    name = "runs"

    def __init__(
        self,
        plan: RunKeeperPlan,
        *,
        database: Database,
        runs: Runs,
        on_failure: Callable[[str, BaseException], None],
    ) -> None:
        super().__init__(on_failure=on_failure)
        self._plan = plan
        self._kept = Kept(database, "runs")
        self._runs = runs
        self._outage = Outage(worker_id=plan.worker_id, part=self.name, limit_seconds=plan.outage_seconds)
        self._grace = min(_LONGEST_GRACE_SECONDS, plan.lease_seconds / 4)
        self._next_renewal = 0.0

    def look(self) -> float:
        self._end_overdue()
        now = time.monotonic()
        if now >= self._next_renewal:
            ids = [held.run.id for held in self._runs.renewable()]
            try:
                if ids:
                    with self._kept as connection:
                        self._renew(connection, ids)
                else:
                    self._next_renewal = now + self._plan.lease_seconds / 3
                self._outage.over()
            except psycopg.Error as error:
                return self._outage.failed(error)
        return self._seconds_until_next()

    def close(self) -> None:
        self._kept.close()

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for held in self._runs.all():
            if now >= held.deadline and self._runs.mark_overdue(held):
                self._runs.interrupt(held, self._too_long, afterwards=self._plan.freed)
            if now >= held.deadline + self._grace and held.phase is Phase.OVERDUE:
                self._abandon(held)

    def _abandon(self, held: HeldRun) -> None:
        if not self._runs.abandon(held):
            return
        reason = f"{self._too_long}, and it did not stop when it was told to"
        self._plan.deliver(Ended(held=held, closing=out_of_time(held.run, reason)))
        stuck = self._runs.stuck
        report_stuck(held, worker_id=self._plan.worker_id, stuck=stuck, slots=self._runs.slots)
        if stuck >= self._runs.slots:
            self._plan.on_all_stuck()

    @property
    def _too_long(self) -> str:
        return f"it did not end within {self._plan.job_timeout_seconds:g} s (--job-timeout)"

    def _renew(self, connection: Connection, ids: list[str]) -> None:
        began = time.monotonic()
        renewed = renew_runs(connection, ids, lease_seconds=self._plan.lease_seconds)
        for id in set(ids) - renewed.keys():
            held = self._runs.mark_lost(id)
            if held is not None:
                report_lost(held, worker_id=self._plan.worker_id)
                self._runs.interrupt(held, "another worker closed the run as lost", afterwards=self._plan.freed)
        in_seconds = self._plan.lease_seconds / 3
        self._next_renewal = began + (in_seconds if all(renewed.values()) else min(in_seconds, _HELD_SECONDS))

    def _seconds_until_next(self) -> float:
        now = time.monotonic()
        instants = [self._next_renewal]
        for held in self._runs.all():
            if held.phase is Phase.RUNNING:
                instants.append(held.deadline)
            elif held.phase is Phase.OVERDUE:
                instants.append(held.deadline + self._grace)
        # New runs may bring an earlier deadline.
        return min(max(min(instants) - now, 0.0), 1.0)
