"""The claim loop in a thread of the test, run until nothing is due."""

from __future__ import annotations

import threading

from taskqueue.database import Database
from taskqueue.handlers import Registry
from taskqueue.running import Running
from taskqueue.worker import TaskWorker, WorkerPlan
from tests.support.sessions import serving_of

_SECONDS = 60.0


def work_until_idle(handlers: Registry, *, slots: int = 4, max_retries: int = 10) -> None:
    """Raises what made the loop fail."""
    idle = threading.Event()
    failures: list[BaseException] = []

    def fail(part: str, error: BaseException) -> None:
        failures.append(error)
        idle.set()

    worker = TaskWorker(
        WorkerPlan(
            serving=serving_of(*handlers.handlers),
            poll_seconds=5.0,
            default_max_retries=max_retries,
            outage_seconds=10.0,
            max_tasks=0,
            on_end=lambda reason: None,
            on_idle=idle.set,
        ),
        database=Database(name="in process"),
        registry=handlers,
        running=Running(slots),
        on_failure=fail,
        on_drained=lambda: None,
    )
    worker.start()
    ended = idle.wait(_SECONDS)
    worker.stop()
    assert worker.join(_SECONDS)
    for failure in failures:
        raise failure
    assert ended, "the worker never became idle"
