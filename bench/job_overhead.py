"""What the scheduler adds to a job: runs over four slots, beside the bare function over four threads."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from django.db import connections

from bench.maintenance_database import MaintenanceDatabase
from experiments.jobs.run import Outcome, Run
from experiments.kinds import Job
from experiments.models import Experiment, JobRun
from tests.support.due_rows import FILL
from xngin_worker.process.composition import compose
from xngin_worker.process.signals import SignalPipe
from xngin_worker.worker_settings import settle

SIZES = (50, 200, 800)
MOST_MILLISECONDS = 20.0
_SLOTS = 4
_JOB_SECONDS = 0.02


def measure(database: MaintenanceDatabase, sizes: Sequence[int] = SIZES) -> bool:
    """Prints a line for each size; whether the overhead for 200 runs is within the bound."""
    within = True
    for count in sizes:
        database.empty()
        with database.connection() as connection:
            connection.execute("SET session_replication_role = replica")
            for statement in FILL.format(experiments=count, draws=0).split(";\n"):
                connection.execute(statement.encode())
            connection.execute("DELETE FROM job_states")
            connection.execute("VACUUM ANALYZE")
        bare = _bare([row.id for row in Experiment.objects.all()])
        scheduled = _scheduled(count)
        # The time in which one slot does one job.
        overhead = (scheduled - bare) * 1000 * _SLOTS / count
        if count == 200:
            within = overhead <= MOST_MILLISECONDS
        print(
            f"{count} jobs over {_SLOTS} slots: {scheduled:.2f} s scheduled, {bare:.2f} s bare, "
            f"overhead {overhead:.1f} ms a job",
            flush=True,
        )
    return within


def _work(experiment_id: str) -> None:
    """What each job does in either case: one query, and some waiting, as for a warehouse."""
    Experiment.objects.get(pk=experiment_id)
    time.sleep(_JOB_SECONDS)


def _bare(ids: Sequence[str]) -> float:
    with ThreadPoolExecutor(_SLOTS) as pool:
        began = time.perf_counter()
        list(pool.map(_work, ids))
        seconds = time.perf_counter() - began
        list(pool.map(lambda _: connections.close_all(), range(_SLOTS)))
    return seconds


def _scheduled(count: int) -> float:
    """From the first run's start to the last one's end, by the ledger."""

    def job(run: Run) -> Outcome:
        _work(run.experiment_id)
        return Outcome()

    settings = settle({"only": "jobs", "exit_when_idle": True, "job_concurrency": _SLOTS, "max_jobs": 0})
    code = compose(settings, pgbouncer=False, pipe=SignalPipe(), jobs={Job.SNAPSHOT: job}).run()
    runs = JobRun.objects.order_by("started_at")
    if code or runs.filter(status="success").count() != count:
        raise SystemExit(f"ended with {code}, {runs.count()} runs")
    ended = max(run.finished_at for run in runs if run.finished_at is not None)
    return (ended - runs[0].started_at).total_seconds()
