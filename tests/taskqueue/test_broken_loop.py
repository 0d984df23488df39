"""A claim loop that ends by a fault of its own gives its claims back, so that none is counted as a loss."""

from __future__ import annotations

import threading

import pytest

from taskqueue.database import Database
from taskqueue.handlers import Registry, register_handler
from taskqueue.models import Task, TaskAttempt
from taskqueue.running import Running
from taskqueue.worker import TaskWorker, WorkerPlan
from tests.support.sessions import serving_of

_SECONDS = 20.0


@pytest.mark.django_db(transaction=True)
def test_claims_of_a_broken_loop_are_due_again_without_a_loss() -> None:
    failed = threading.Event()
    begun, end = threading.Event(), threading.Event()
    handlers = Registry()

    def work(payload: object) -> None:
        begun.set()
        end.wait(_SECONDS)

    register_handler("broken.long", work, into=handlers)
    worker = TaskWorker(
        WorkerPlan(
            # Serves a type whose handler is missing: taking such a task is a fault of the loop, not of the task.
            serving=serving_of("broken.long", "broken.missing"),
            poll_seconds=0.05,
            default_max_retries=0,
            outage_seconds=60.0,
            max_tasks=0,
            on_end=lambda reason: None,
        ),
        database=Database(name="broken"),
        registry=handlers,
        running=Running(2),
        on_failure=lambda part, error: failed.set(),
        on_drained=lambda: None,
    )
    Task.objects.create(id="held", task_type="broken.long")
    worker.start()
    assert begun.wait(_SECONDS)
    Task.objects.create(id="missing", task_type="broken.missing")

    assert failed.wait(_SECONDS)
    assert worker.join(_SECONDS)

    end.set()
    rows = Task.objects.order_by("id").values_list("id", "status", "retry_count", "lost_count")
    assert list(rows) == [("held", "pending", 0, 0), ("missing", "pending", 0, 0)]
    assert set(TaskAttempt.objects.values_list("task_id", "outcome")) == {("held", "released"), ("missing", "released")}
