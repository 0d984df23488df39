"""Job functions for tests with real workers: what each does is the description of its experiment.

They need a table ``marks``, to which they write as runs do: within their fence.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from django.db import connection

from experiments.jobs.run import JobFunction, Outcome, Run
from experiments.kinds import Job
from experiments.models import Experiment
from taskqueue.operations import enqueue


def _mark(run: Run, step: str) -> None:
    with run.writing(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO marks (run_id, experiment_id, job, step) VALUES (%s, %s, %s, %s)",
            [run.id, run.experiment_id, run.job.value, step],
        )
        if step == "done" and run.job is Job.SNAPSHOT:
            cursor.execute(
                "UPDATE snapshots SET status = 'success', data = '{}', run_id = %s"
                " WHERE experiment_id = %s AND status = 'pending'",
                [run.id, run.experiment_id],
            )


def _take_a_moment(run: Run) -> None:
    """50 to 500 ms, another time for each run."""
    time.sleep(0.05 + zlib.crc32(run.id.encode()) % 450 / 1000)


def _wait(run: Run) -> None:
    """Until it is told to stop, which it says in a mark of its own."""
    while run.cancellation.reason is None:
        time.sleep(0.02)
    run.cancellation.check()


def _hang(run: Run) -> None:
    time.sleep(600)


def _ask_for_another(run: Run) -> None:
    """By a task, which asks for a snapshot."""
    Experiment.objects.filter(pk=run.experiment_id).update(description="")
    enqueue("test.sql", {"statements": [f"INSERT INTO snapshots (experiment_id) SELECT '{run.experiment_id}'"]})


_BY_DESCRIPTION: Mapping[str, Callable[[Run], None]] = MappingProxyType(
    {"": _take_a_moment, "wait": _wait, "hang": _hang, "ask for another": _take_a_moment}
)


def run_as_described(run: Run) -> Outcome:
    described = Experiment.objects.get(pk=run.experiment_id).description
    _mark(run, "begun")
    _BY_DESCRIPTION[described](run)
    _mark(run, "done")
    if described == "ask for another":
        # Last, since this run would serve the request itself.
        _ask_for_another(run)
    return Outcome(counts={"marks": 2})


JOBS: Mapping[Job, JobFunction] = MappingProxyType(dict.fromkeys(Job, run_as_described))
