"""For each event of the runs of maintenance jobs, a scheduler that is driven until it says it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType

from experiments.jobs.run import JobFunction, Outcome, Run
from experiments.kinds import ExperimentType
from tests.contracts.emitters import SECRET
from tests.support.experiments import make_experiment
from tests.support.job_workers import JobWorker, always, do_nothing, job_worker
from tests.support.sessions import Connect

type Drive = Callable[[JobWorker, Connect, threading.Event], None]


def _fail(run: Run) -> Outcome:
    raise ValueError(SECRET)


def _succeed(run: Run) -> Outcome:
    return Outcome(message=SECRET, counts={"draws": 1})


def _drive(drive: Drive, function: JobFunction | None = None, *, seconds: float = 60.0) -> Callable[[Connect], None]:
    """A worker with one due job, which waits for the event unless another function is given."""

    def emit(connect: Connect) -> None:
        make_experiment(ExperimentType.FREQ_ONLINE)
        go_on = threading.Event()

        def wait(run: Run) -> Outcome:
            go_on.wait(20)
            return Outcome()

        # A lease of a few seconds, since a job that is told to stop gets a part of it to do so.
        with job_worker(always(function or wait), job_timeout_seconds=seconds, lease_seconds=0.1) as worker:
            worker.look()
            drive(worker, connect, go_on)
            go_on.set()

    return emit


def _end(worker: JobWorker, connect: Connect, go_on: threading.Event) -> None:
    worker.look_until_free()


def _release(worker: JobWorker, connect: Connect, go_on: threading.Event) -> None:
    worker.scheduler.release()
    worker.look()


def _lose(worker: JobWorker, connect: Connect, go_on: threading.Event) -> None:
    connect().execute("UPDATE job_runs SET status = 'lost', finished_at = now(), lease_until = NULL")
    go_on.set()
    worker.look_until_free()


def _expire(worker: JobWorker, connect: Connect, go_on: threading.Event) -> None:
    connect().execute("UPDATE job_runs SET lease_until = now() - interval '1 s'")
    with job_worker(always(do_nothing), worker_id="worker-b") as other:
        other.look()


def _get_stuck(worker: JobWorker, connect: Connect, go_on: threading.Event) -> None:
    while not worker.runs.stuck:
        worker.keeper.look()


EMITTERS: Mapping[str, Callable[[Connect], None]] = MappingProxyType(
    {
        "experiments.run.started": _drive(_end, do_nothing),
        "experiments.run.succeeded": _drive(_end, _succeed),
        "experiments.run.failed": _drive(_end, _fail),
        "experiments.run.released": _drive(_release),
        "experiments.run.lost": _drive(_lose),
        "experiments.run.expired": _drive(_expire),
        "experiments.run.stuck": _drive(_get_stuck, seconds=0.0),
    }
)
