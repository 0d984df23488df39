"""Rows for tests: tasks in any state with the history that leads there, and webhooks."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from taskqueue.lifecycle import FINAL, Status
from taskqueue.models import Outcome, Task, TaskAttempt, Webhook

_WORKER = "worker-of-the-test"


def make_task(task_type: str = "test.task", payload: Any = None, *, status: str = "pending", **fields: Any) -> Task:
    """A task as a worker would have left it in this state, with one attempt behind it unless it is pending.

    ``fields`` are columns and win. One that is dead, or pending with a ``retry_count``, has its failed attempts.
    Raises ``ValueError`` for an unknown state.
    """
    state, now = Status(status), timezone.now()
    values = {**_of_state(state, now, int(fields.get("retry_count", 0))), **fields}
    made = Task.objects.create(task_type=task_type, payload=payload, status=state.value, **values)
    task = Task.objects.get(pk=made.pk)
    if state in (Status.PENDING, Status.DEAD):
        _fail(task, now)
    return task


def make_webhook(url: str = "https://receiver.example/hook", **fields: Any) -> Webhook:
    return Webhook.objects.get(pk=Webhook.objects.create(url=url, **fields).pk)


def _of_state(state: Status, now: datetime, retries: int) -> dict[str, Any]:
    if state is Status.PENDING:
        return {"attempt": retries, "started_at": now if retries else None}
    values: dict[str, Any] = {"attempt": retries + 1, "started_at": now}
    if state is Status.RUNNING:
        values |= {"worker_id": _WORKER, "lease_until": now + timedelta(minutes=1)}
    if state in FINAL:
        values["finished_at"] = now
    if state in (Status.DEAD, Status.DEAD_LETTERED):
        values |= {"message": "made by a test", "error_code": "test"}
    return values


def _fail(task: Task, now: datetime) -> None:
    TaskAttempt.objects.bulk_create(
        TaskAttempt(
            task=task,
            attempt=number,
            worker_id=_WORKER,
            started_at=now,
            finished_at=now,
            outcome=Outcome.FAILED,
            error_code="test",
            message="made by a test",
        )
        for number in range(1, task.attempt + 1)
    )
