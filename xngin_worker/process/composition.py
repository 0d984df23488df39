"""The one list of everything that runs in a worker's process, and how the parts are joined."""

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from random import random

from experiments import events as experiment_events
from taskqueue import events, log_receiver, telemetry
from taskqueue.database import Database
from taskqueue.handlers import Registry, registry
from taskqueue.janitor import Janitor
from taskqueue.lease import KeeperPlan, LeaseKeeper
from taskqueue.listener import Listener
from taskqueue.records import Serving
from taskqueue.running import Running
from taskqueue.service import Service
from taskqueue.triggers import CHANNEL
from taskqueue.webhook import fairness
from taskqueue.worker import TaskWorker, WorkerPlan
from xngin_worker.configuration import ConfigurationError
from xngin_worker.health import HealthServer
from xngin_worker.process.signals import SignalPipe
from xngin_worker.process.starter import starter
from xngin_worker.process.supervisor import ExitCode, Half, Supervisor
from xngin_worker.worker_settings import WorkerSettings


@dataclass(frozen=True, kw_only=True)
class Process:
    supervisor: Supervisor
    services: Sequence[Service]
    half: Half

    def run(self) -> ExitCode:
        return self.supervisor.run(self.services, self.half)


def compose(settings: WorkerSettings, *, pgbouncer: bool, pipe: SignalPipe, handlers: Registry = registry) -> Process:
    worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    supervisor = Supervisor(
        worker_id=worker_id, drain_timeout_seconds=settings.drain_timeout_seconds, pipe=pipe, starter=starter
    )
    database = Database(pgbouncer=pgbouncer)
    serving = Serving(
        task_types=tuple(sorted(handlers.handlers)),
        queues=tuple(settings.queues) or None,
        worker_id=worker_id,
        lease_seconds=settings.lease_seconds,
    )
    running = Running(settings.task_concurrency)
    fairness.configure(slots=settings.task_concurrency)
    worker = TaskWorker(
        WorkerPlan(
            serving=serving,
            poll_seconds=settings.poll_interval_seconds,
            default_max_retries=settings.max_retries,
            outage_seconds=settings.db_outage_seconds,
            max_tasks=settings.max_tasks,
            exit_when_idle=settings.exit_when_idle,
            on_end=supervisor.end,
        ),
        database=database,
        registry=handlers,
        running=running,
        on_failure=supervisor.fail,
        on_drained=supervisor.progress,
    )
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
    services: list[Service] = [keeper]
    if not pgbouncer:
        listener = Listener(
            database=database,
            worker_id=worker_id,
            hearers={CHANNEL: worker.work_may_be_due},
            on_change=keeper.wake,
            on_failure=supervisor.fail,
        )
        keeper.listen_with(listener)
        services.append(listener)
    services.append(worker)
    services.append(
        Janitor(
            database=database,
            serving=serving,
            default_max_retries=settings.max_retries,
            outage_seconds=settings.db_outage_seconds,
            random=random,
            on_failure=supervisor.fail,
        )
    )
    if settings.health_port is not None:
        services.append(
            _health_server(
                settings.health_port,
                alive=lambda: not worker.outlasted,
                ready=lambda: worker.serving_now and not supervisor.draining,
                on_failure=supervisor.fail,
            )
        )
    log_receiver.connect()
    log_receiver.connect(experiment_events.CATALOGUE)
    telemetry.emit(
        events.WORKER_STARTED,
        worker_id=worker_id,
        version=package_version(),
        slots=settings.task_concurrency,
        queues=serving.queues or "all",
        task_types=serving.task_types,
        listening="polling only: a pooler stands in between (XNGIN_PGBOUNCER)" if pgbouncer else "LISTEN",
    )
    return Process(
        supervisor=supervisor,
        services=services,
        half=Half(
            vital=frozenset({worker.name, keeper.name}),
            drain=worker.drain,
            release=worker.release,
            settled=lambda: worker.drained,
            held=lambda: running.held,
            released=lambda: worker.released,
        ),
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
