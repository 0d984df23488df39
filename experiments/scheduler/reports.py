"""Which event follows from what happened to a run."""

import time

from experiments import events
from experiments.events import RUN_FAILED, RUN_RELEASED, RUN_SUCCEEDED
from experiments.models import RunStatus
from experiments.scheduler.ledger import Closing, ExpiredRun
from experiments.scheduler.runs import HeldRun
from taskqueue import telemetry

_BY_STATUS = {
    RunStatus.SUCCESS: RUN_SUCCEEDED,
    RunStatus.FAILED: RUN_FAILED,
    RunStatus.RELEASED: RUN_RELEASED,
}


def report_started(held: HeldRun, *, worker_id: str) -> None:
    telemetry.emit(
        events.RUN_STARTED,
        **_run(held, worker_id),
        datasource_id=held.datasource_id,
        late_ms=_milliseconds(held.late_seconds),
    )


def report_closed(held: HeldRun, closing: Closing, *, worker_id: str) -> None:
    telemetry.emit(
        _BY_STATUS[closing.status],
        **_run(held, worker_id),
        datasource_id=held.datasource_id,
        latency_ms=_milliseconds(time.monotonic() - held.opened_at),
        late_ms=_milliseconds(held.late_seconds),
        counts=dict(closing.counts),
        error_code=closing.error_code,
    )


def report_lost(held: HeldRun, *, worker_id: str) -> None:
    telemetry.emit(events.RUN_LOST, **_run(held, worker_id))


def report_expired(run: ExpiredRun, *, worker_id: str) -> None:
    telemetry.emit(
        events.RUN_EXPIRED,
        run_id=run.id,
        job=run.job,
        experiment_id=run.experiment_id,
        worker_id=worker_id,
        lost_worker_id=run.worker_id,
    )


def report_stuck(held: HeldRun, *, worker_id: str, stuck: int, slots: int) -> None:
    telemetry.emit(events.RUN_STUCK, **_run(held, worker_id), stuck=stuck, slots=slots)


def _run(held: HeldRun, worker_id: str) -> dict[str, str]:
    run = held.run
    return {"run_id": run.id, "job": run.job.value, "experiment_id": run.experiment_id, "worker_id": worker_id}


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)
