"""One job now, because a person wants it: under the same lock and ledger as by a worker, whenever it is due."""

import os
import secrets
import socket
import threading
import time
from dataclasses import dataclass

from experiments.errors import Conflict, NotFound
from experiments.jobs.run import JobFunction, Run
from experiments.kinds import ExperimentState, ExperimentType, Job
from experiments.models import Experiment, JobRun, RunStatus
from experiments.scheduler.execution import execute
from experiments.scheduler.keeper import RunKeeper, RunKeeperPlan
from experiments.scheduler.ledger import Closing, Fate, NewRun, close_expired, close_runs, open_runs
from experiments.scheduler.reports import report_closed, report_expired, report_lost, report_started
from experiments.scheduler.runs import Ended, HeldRun, Runs
from taskqueue.database import Connection, Database

_HELD_SECONDS = 0.2
_INTERRUPTION_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class RunningByHand:
    """``timeout_seconds``: after that long the job is told to stop and has failed."""

    database: Database
    lease_seconds: float
    timeout_seconds: float

    def run(self, job: Job, experiment_id: str, function: JobFunction) -> Closing:
        """How the run ended: success, failed, or released when a KeyboardInterrupt ended it.

        Raises ``NotFound``, and ``Conflict`` when the job is not for this experiment, another run holds it, or the run
        was taken for lost meanwhile.
        """
        experiment = _runnable(job, experiment_id)
        worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        connection = self.database.open("run_job")
        try:
            for expired in close_expired(connection, worker_id=worker_id):
                report_expired(expired, worker_id=worker_id)
            new = NewRun(experiment_id=experiment.id, job=job)
            if not open_runs(connection, [new], worker_id=worker_id, lease_seconds=self.lease_seconds):
                raise Conflict(_holder(experiment), code="busy")
            now = time.monotonic()
            held = HeldRun(
                run=Run(id=new.id, job=job, experiment_id=experiment.id),
                datasource_id=experiment.datasource_id,
                opened_at=now,
                deadline=now + self.timeout_seconds,
                late_seconds=0.0,
            )
            report_started(held, worker_id=worker_id)
            return _close(connection, self._hold(held, function, worker_id), worker_id)
        finally:
            connection.close()

    def _hold(self, held: HeldRun, function: JobFunction, worker_id: str) -> Ended:
        """Run it in a thread beside a run keeper, as a worker does; how it ended."""
        runs = Runs(1)
        runs.add(held)
        over = threading.Event()
        endings: list[Ended] = []

        def deliver(ended: Ended) -> None:
            endings.append(ended)
            over.set()

        def work() -> None:
            closing = execute(function, held.run)
            if runs.vacate(held):
                deliver(Ended(held=held, closing=None if held.lost else closing))

        keeper = RunKeeper(
            RunKeeperPlan(
                worker_id=worker_id,
                lease_seconds=self.lease_seconds,
                job_timeout_seconds=self.timeout_seconds,
                outage_seconds=self.lease_seconds,
                deliver=deliver,
                freed=_go_on,
                on_all_stuck=_go_on,
            ),
            database=self.database,
            runs=runs,
            # Without the database nothing can be renewed: the run is another worker's soon.
            on_failure=lambda part, error: held.run.cancellation.stop(f"{part} failed: {error}"),
        )
        keeper.start()
        threading.Thread(target=work, name=f"job {held.run.id}", daemon=True).start()
        try:
            over.wait()
        except KeyboardInterrupt:
            stopped = threading.Event()
            if runs.abandon(held):
                endings.append(Ended(held=held, closing=Closing(run_id=held.run.id, status=RunStatus.RELEASED)))
            runs.interrupt(held, "it was interrupted by hand", afterwards=stopped.set)
            stopped.wait(_INTERRUPTION_SECONDS)
        finally:
            keeper.stop()
            keeper.join(_INTERRUPTION_SECONDS)
        return endings[0]


def _runnable(job: Job, experiment_id: str) -> Experiment:
    experiment = Experiment.objects.filter(pk=experiment_id).first()
    if experiment is None:
        raise NotFound(f"there is no experiment {experiment_id}", field="experiment")
    if not job.applies_to(ExperimentType(experiment.experiment_type)):
        raise Conflict(f"{job} is not for experiments of type {experiment.experiment_type}", code="wrong_type")
    if experiment.state != ExperimentState.COMMITTED:
        raise Conflict(f"the experiment is {experiment.state}, not committed", code="not_committed")
    return experiment


def _holder(experiment: Experiment) -> str:
    run = JobRun.objects.filter(experiment=experiment, status=RunStatus.RUNNING).first()
    if run is None:
        return "another run of the experiment has just begun or ended; try again"
    return (
        f"{run.job} runs since {run.started_at.isoformat(timespec='seconds')} on worker {run.worker_id} (run {run.id});"
        " an experiment has one job at a time"
    )


def _close(connection: Connection, ended: Ended, worker_id: str) -> Closing:
    closing = ended.closing
    fate = Fate.GONE
    while closing is not None:
        fate = close_runs(connection, [closing])[closing.run_id]
        if fate is not Fate.HELD:
            break
        time.sleep(_HELD_SECONDS)
    if closing is None or fate is Fate.GONE:
        report_lost(ended.held, worker_id=worker_id)
        raise Conflict(
            "another worker took the run for lost and closed it; what it wrote since was refused", code="lost"
        )
    report_closed(ended.held, closing, worker_id=worker_id)
    return closing


def _go_on() -> None:
    """The one thread that waits here hears of the end itself."""
