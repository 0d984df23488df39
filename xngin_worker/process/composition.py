"""The one list of everything that runs in a worker's process, and how the parts are joined."""

import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from random import random

import experiments.events
from experiments.jobs.run import JobFunction
from experiments.kinds import Job
from taskqueue import events, log_receiver, telemetry
from taskqueue.database import Database
from taskqueue.handlers import Registry, registry
from taskqueue.janitor import Janitor
from taskqueue.lease import KeeperPlan, LeaseKeeper
from taskqueue.listener import Listener
from taskqueue.minute_writer import MinuteWriter
from taskqueue.minutes import Minutes
from taskqueue.records import Serving
from taskqueue.running import Running
from taskqueue.service import Service
from taskqueue.triggers import CHANNEL
from taskqueue.webhook import fairness
from taskqueue.worker import TaskWorker, WorkerPlan
from xngin_worker.configuration import ConfigurationError
from xngin_worker.health import HealthServer
from xngin_worker.process.idleness import Idleness
from xngin_worker.process.jobs_half import JobsHalf, compose_jobs
from xngin_worker.process.signals import SignalPipe
from xngin_worker.process.starter import starter
from xngin_worker.process.supervisor import ExitCode, Half, Supervisor
from xngin_worker.worker_settings import WorkerSettings


@dataclass(frozen=True, kw_only=True)
class Process:
    supervisor: Supervisor
    services: Sequence[Service]
    halves: Sequence[Half]

    def run(self) -> ExitCode:
        return self.supervisor.run(self.services, self.halves)


def compose(
    settings: WorkerSettings,
    *,
    pgbouncer: bool,
    pipe: SignalPipe,
    handlers: Registry = registry,
    jobs: Mapping[Job, JobFunction],
) -> Process:
    worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    supervisor = Supervisor(
        worker_id=worker_id, drain_timeout_seconds=settings.drain_timeout_seconds, pipe=pipe, starter=starter
    )
    database = Database(pgbouncer=pgbouncer)
    serving = Serving(
        # A worker that runs jobs alone handles no type, which is what the others must know of it.
        task_types=tuple(sorted(handlers.handlers)) if settings.runs_tasks else (),
        queues=tuple(settings.queues) or None,
        worker_id=worker_id,
        lease_seconds=settings.lease_seconds,
    )
    running = Running(settings.task_concurrency if settings.runs_tasks else 0)
    idleness = Idleness(on_idle=lambda: supervisor.end("nothing is due"))
    minutes = Minutes()
    worker = _task_worker(settings, serving, database, handlers, running, minutes, supervisor, idleness)
    keeper = LeaseKeeper(
        KeeperPlan(
            serving=serving,
            version=package_version(),
            outage_seconds=settings.db_outage_seconds,
            draining=lambda: supervisor.draining,
            tries=worker.tries,
            deliver=worker.deliver,
            on_all_stuck=lambda: supervisor.end("stuck handlers hold every slot", ExitCode.FAILED),
        ),
        database=database,
        running=running,
        on_failure=supervisor.fail,
    )
    halves: list[Half] = []
    hearers: dict[str, Callable[[], None]] = {}
    # The keeper says that the process lives, whatever it does.
    services: list[Service] = [keeper]
    loops: list[TaskWorker | JobsHalf] = []
    if settings.runs_tasks:
        fairness.configure(slots=settings.task_concurrency)
        idleness.add(worker.name, moves=lambda: worker.moves, look=worker.work_may_be_due)
        hearers[CHANNEL] = worker.work_may_be_due
        loops.append(worker)
        services += [
            MinuteWriter(
                minutes,
                database=database,
                worker_id=worker_id,
                outage_seconds=settings.db_outage_seconds,
                on_failure=supervisor.fail,
            ),
            worker,
            _janitor(settings, serving, database, supervisor),
        ]
        halves.append(
            Half(
                vital=frozenset({worker.name, keeper.name}),
                drain=worker.drain,
                release=worker.release,
                settled=lambda: worker.drained,
                held=lambda: running.held,
                released=lambda: worker.released,
            )
        )
    if settings.runs_jobs:
        jobs_half = compose_jobs(
            settings, worker_id=worker_id, pgbouncer=pgbouncer, functions=jobs, supervisor=supervisor, idleness=idleness
        )
        hearers[jobs_half.channel] = jobs_half.wake
        loops.append(jobs_half)
        services += jobs_half.services
        halves.append(jobs_half.half)
    if not pgbouncer:
        listener = Listener(
            database=database,
            worker_id=worker_id,
            hearers=hearers,
            on_change=keeper.wake,
            on_failure=supervisor.fail,
        )
        keeper.listen_with(listener)
        services.insert(1, listener)
    if settings.health_port is not None:
        services.append(
            _health_server(
                settings.health_port,
                alive=lambda: not any(loop.outlasted for loop in loops),
                ready=lambda: all(loop.serving_now for loop in loops) and not supervisor.draining,
                on_failure=supervisor.fail,
            )
        )
    log_receiver.connect()
    log_receiver.connect(experiments.events.CATALOGUE, logger="experiments")
    telemetry.emit(
        events.WORKER_STARTED,
        worker_id=worker_id,
        version=package_version(),
        slots=running.slots,
        queues=serving.queues or "all",
        task_types=serving.task_types,
        listening="polling only: a pooler stands in between (XNGIN_PGBOUNCER)" if pgbouncer else "LISTEN",
    )
    return Process(supervisor=supervisor, services=services, halves=halves)


def _task_worker(
    settings: WorkerSettings,
    serving: Serving,
    database: Database,
    handlers: Registry,
    running: Running,
    minutes: Minutes,
    supervisor: Supervisor,
    idleness: Idleness,
) -> TaskWorker:
    return TaskWorker(
        WorkerPlan(
            serving=serving,
            poll_seconds=settings.poll_interval_seconds,
            default_max_retries=settings.max_retries,
            outage_seconds=settings.db_outage_seconds,
            max_tasks=settings.max_tasks,
            on_end=supervisor.end,
            on_idle=(lambda: idleness.report(TaskWorker.name)) if settings.exit_when_idle else None,
            count=minutes.count,
        ),
        database=database,
        registry=handlers,
        running=running,
        on_failure=supervisor.fail,
        on_drained=supervisor.progress,
    )


def _janitor(settings: WorkerSettings, serving: Serving, database: Database, supervisor: Supervisor) -> Janitor:
    return Janitor(
        database=database,
        serving=serving,
        default_max_retries=settings.max_retries,
        outage_seconds=settings.db_outage_seconds,
        random=random,
        on_failure=supervisor.fail,
    )


def _health_server(
    port: int,
    *,
    alive: Callable[[], bool],
    ready: Callable[[], bool],
    on_failure: Callable[[str, BaseException], None],
) -> HealthServer:
    try:
        return HealthServer(port=port, alive=alive, ready=ready, on_failure=on_failure)
    except OSError as error:
        raise ConfigurationError([f"--health-port {port} cannot be used: {error.strerror or error}."]) from error


def package_version() -> str:
    try:
        return version("xngin-worker")
    except PackageNotFoundError:
        return "unknown"
