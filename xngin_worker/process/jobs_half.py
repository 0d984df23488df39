"""The half of a worker's process that runs maintenance jobs, for the list in ``composition``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from experiments.jobs.run import JobFunction
from experiments.kinds import Job
from experiments.models.schedule_triggers import CHANNEL
from experiments.scheduler.keeper import RunKeeper, RunKeeperPlan
from experiments.scheduler.runs import Runs
from experiments.scheduler.schedule import Intervals
from experiments.scheduler.service import Scheduler, SchedulerPlan
from taskqueue.database import HASHING, Database
from taskqueue.service import Service
from xngin_worker.process.idleness import Idleness
from xngin_worker.process.supervisor import ExitCode, Half, Supervisor
from xngin_worker.worker_settings import WorkerSettings


@dataclass(frozen=True, kw_only=True)
class JobsHalf:
    scheduler: Scheduler
    services: Sequence[Service]
    half: Half
    channel: str = CHANNEL

    def wake(self) -> None:
        self.scheduler.wake()

    @property
    def outlasted(self) -> bool:
        return self.scheduler.outlasted

    @property
    def serving_now(self) -> bool:
        return self.scheduler.serving_now


def compose_jobs(
    settings: WorkerSettings,
    *,
    worker_id: str,
    pgbouncer: bool,
    functions: Mapping[Job, JobFunction],
    supervisor: Supervisor,
    idleness: Idleness,
) -> JobsHalf:
    # The due query reads all committed experiments.
    database = Database(pgbouncer=pgbouncer, session=HASHING)
    runs = Runs(settings.job_concurrency)
    scheduler = Scheduler(
        SchedulerPlan(
            worker_id=worker_id,
            functions=functions,
            intervals=Intervals(
                snapshot=timedelta(seconds=settings.snapshot_interval_seconds),
                pull=timedelta(seconds=settings.pull_interval_seconds),
            ),
            lease_seconds=settings.lease_seconds,
            poll_seconds=settings.poll_interval_seconds,
            job_timeout_seconds=settings.job_timeout_seconds,
            outage_seconds=settings.db_outage_seconds,
            max_jobs=settings.max_jobs,
            on_end=supervisor.end,
            on_idle=(lambda: idleness.report(Scheduler.name)) if settings.exit_when_idle else lambda: None,
        ),
        database=database,
        runs=runs,
        on_failure=supervisor.fail,
        on_drained=supervisor.progress,
    )
    idleness.add(Scheduler.name, moves=lambda: scheduler.moves, look=scheduler.wake)
    keeper = RunKeeper(
        RunKeeperPlan(
            worker_id=worker_id,
            lease_seconds=settings.lease_seconds,
            job_timeout_seconds=settings.job_timeout_seconds,
            outage_seconds=settings.db_outage_seconds,
            deliver=scheduler.deliver,
            freed=scheduler.wake,
            on_all_stuck=lambda: supervisor.end("stuck jobs hold every slot", ExitCode.FAILED),
        ),
        database=database,
        runs=runs,
        on_failure=supervisor.fail,
    )
    return JobsHalf(
        scheduler=scheduler,
        services=[keeper, scheduler],
        half=Half(
            vital=frozenset({scheduler.name, keeper.name}),
            drain=scheduler.drain,
            release=scheduler.release,
            settled=lambda: scheduler.drained,
            held=lambda: runs.held,
            released=lambda: scheduler.released,
        ),
    )
