"""The scheduler in a test's own hands: job functions that the test gives, and loops that look when the test says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from experiments.jobs.run import JobFunction, Outcome, Run
from experiments.kinds import Job
from experiments.scheduler.keeper import RunKeeper, RunKeeperPlan
from experiments.scheduler.runs import Runs
from experiments.scheduler.schedule import Intervals
from experiments.scheduler.service import Scheduler, SchedulerPlan
from taskqueue.database import HASHING, Database

DEADLINE_SECONDS = 20.0


def do_nothing(run: Run) -> Outcome:
    return Outcome()


def always(function: JobFunction) -> dict[Job, JobFunction]:
    """This function for each job."""
    return dict.fromkeys(Job, function)


@dataclass(kw_only=True)
class JobWorker:
    """One worker's scheduler and run keeper, not started. ``said`` is what they told whoever composed them."""

    scheduler: Scheduler
    keeper: RunKeeper
    runs: Runs
    said: list[str] = field(default_factory=list)

    def look(self) -> float:
        return self.scheduler.look()

    def look_until_free(self) -> None:
        """Look until nothing is held any more."""
        wait_until(self._looked_and_free)

    def _looked_and_free(self) -> bool:
        self.look()
        return self.runs.held == 0

    def close(self) -> None:
        self.scheduler.close()
        self.keeper.close()
        wait_until(lambda: self.runs.free == self.runs.slots and not self.runs.interrupting)


@contextmanager
def job_worker(
    functions: Mapping[Job, JobFunction], *, worker_id: str = "worker-a", slots: int = 4, **plan: Any
) -> Iterator[JobWorker]:
    """``plan`` are fields of the scheduler's plan that differ from the usual ones."""
    said: list[str] = []
    database = Database(name=f"test {worker_id}", session=HASHING)
    runs = Runs(slots)

    def fail(part: str, error: BaseException) -> None:
        pytest.fail(f"{part}: {error}")

    fields: dict[str, Any] = {
        "worker_id": worker_id,
        "functions": functions,
        "intervals": Intervals(),
        "lease_seconds": 60.0,
        "poll_seconds": 5.0,
        "job_timeout_seconds": 60.0,
        "outage_seconds": 60.0,
        "max_jobs": 0,
        "on_end": said.append,
        "on_idle": lambda: said.append("idle"),
        **plan,
    }
    scheduler = Scheduler(
        SchedulerPlan(**fields),
        database=database,
        runs=runs,
        on_failure=fail,
        on_drained=lambda: said.append("drained"),
    )
    keeper = RunKeeper(
        RunKeeperPlan(
            worker_id=worker_id,
            lease_seconds=fields["lease_seconds"],
            job_timeout_seconds=fields["job_timeout_seconds"],
            outage_seconds=60.0,
            deliver=scheduler.deliver,
            freed=scheduler.wake,
            on_all_stuck=lambda: said.append("all stuck"),
        ),
        database=database,
        runs=runs,
        on_failure=fail,
    )
    worker = JobWorker(scheduler=scheduler, keeper=keeper, runs=runs, said=said)
    try:
        yield worker
    finally:
        worker.close()


def wait_until(condition: Any, seconds: float = DEADLINE_SECONDS) -> None:
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        pause.wait(0.005)
