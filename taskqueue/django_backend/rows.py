"""Between rows of the queue and Django's results. Imported by the backend's methods only, since it needs the models."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from django.db import router, transaction
from django.tasks.base import Task, TaskError, TaskResult, TaskResultStatus
from django.tasks.exceptions import InvalidTask
from django.tasks.signals import task_enqueued
from django.utils import timezone
from django.utils.json import normalize_json
from django.utils.module_loading import import_string

from taskqueue import enqueueing, errors, handlers, in_process, models
from taskqueue.django_backend.backend import TaskQueueBackend
from taskqueue.django_backend.call import CALL, Call
from taskqueue.django_backend.queue_task import QueueTask
from taskqueue.django_backend.run import Run
from taskqueue.handlers import registry
from taskqueue.ids import new_correlation_id
from taskqueue.lifecycle import Status
from taskqueue.models import Outcome

_STATUSES = {
    Status.PENDING: TaskResultStatus.READY,
    Status.RUNNING: TaskResultStatus.RUNNING,
    Status.SUCCESS: TaskResultStatus.SUCCESSFUL,
    Status.DEAD: TaskResultStatus.FAILED,
    Status.DEAD_LETTERED: TaskResultStatus.FAILED,
}
# Attempts that ended without success although nothing went wrong in them.
_NO_ERRORS = {Outcome.SNOOZED, Outcome.RELEASED}


def enqueue[**P, R](
    backend: TaskQueueBackend, task: Task[P, R], args: list[Any], kwargs: dict[str, Any]
) -> TaskResult[P, R]:
    payload = {"args": normalize_json(list(args)), "kwargs": normalize_json(kwargs)}
    ours = task if isinstance(task, QueueTask) else None
    run_at = task.run_after
    if run_at is not None and timezone.is_naive(run_at):
        run_at = timezone.make_aware(run_at)
    correlation_id = new_correlation_id()
    alias = router.db_for_write(models.Task)
    # In immediate mode the task runs when this block is left, after it is told that it was enqueued.
    with transaction.atomic(using=alias) if in_process.immediate() else contextlib.nullcontext():
        try:
            row = enqueueing.enqueue(
                task.module_path,
                payload,
                run_at=run_at,
                priority=int(task.priority),
                queue=task.queue_name,
                dedupe_key=ours.key_for(args, kwargs) if ours else None,
                max_retries=ours.max_retries if ours else None,
                correlation_id=correlation_id,
            )
        except errors.InvalidTask as error:
            raise InvalidTask(str(error)) from error
        result = _result(row, task, backend.alias)
        if row.correlation_id == correlation_id:
            task_enqueued.send(type(backend), task_result=result)
    if in_process.immediate():
        row.refresh_from_db(using=alias)
        return _result(row, task, backend.alias)
    return result


def find(id: str, *, alias: str) -> TaskResult[..., Any] | None:
    """None when there is no such task, or it is none of Django's."""
    if not _can_be_an_id(id):
        return None
    row = models.Task.objects.using(router.db_for_read(models.Task)).filter(id=id).first()
    if row is None or _call(row) is None:
        return None
    task = _task(row.task_type)
    if task is None:
        return None
    with contextlib.suppress(InvalidTask):
        # What was declared may have changed since; then the task is told as it is now.
        task = replace(task, priority=row.priority, queue_name=row.queue, backend=alias)
    return _result(row, task, alias)


def of_attempt(run: Run, context: handlers.TaskContext) -> TaskResult[..., Any]:
    """The result as it stands while this attempt runs."""
    rows = models.Task.objects.using(router.db_for_write(models.Task))
    return _result(rows.get(id=context.id, attempt=context.attempt), run.task, run.alias)


def _result[**P, R](row: models.Task, task: Task[P, R], alias: str) -> TaskResult[P, R]:
    call = _call(row) or Call(args=[], kwargs={})
    attempts = _attempts(row)
    result: TaskResult[P, R] = TaskResult(
        task=task,
        id=row.id,
        status=_STATUSES[Status(row.status)],
        enqueued_at=row.created_at,
        started_at=attempts[0].started_at if attempts else row.started_at,
        finished_at=row.finished_at,
        last_attempted_at=row.started_at,
        args=call.args,
        kwargs=call.kwargs,
        backend=alias,
        errors=[_error(attempt) for attempt in attempts if attempt.outcome not in _NO_ERRORS],
        worker_ids=[attempt.worker_id for attempt in attempts],
    )
    if row.worker_id is not None:
        result.worker_ids.append(row.worker_id)
    if row.status == Status.SUCCESS:
        stored = row.result if isinstance(row.result, dict) else {}
        result.worker_ids.append(stored.get("worker_id", "unknown"))
        object.__setattr__(result, "_return_value", stored.get("return_value"))
    return result


def _attempts(row: models.Task) -> list[models.TaskAttempt]:
    """Those that did not succeed, oldest first. Mostly there are none, which the row itself tells."""
    if row.attempt <= (row.status in (Status.RUNNING, Status.SUCCESS)):
        return []
    return list(row.attempts.order_by("attempt"))


def _error(attempt: models.TaskAttempt) -> TaskError:
    lost = f"{errors.WorkerLost.__module__}.{errors.WorkerLost.__qualname__}"
    path = attempt.error_class or (lost if attempt.outcome == Outcome.LOST else "builtins.Exception")
    return TaskError(exception_class_path=path, traceback=attempt.traceback or attempt.message or "")


def _call(row: models.Task) -> Call | None:
    try:
        call: Call = CALL.validate_python(row.payload)
    except ValueError:
        return None
    return call


def _task(path: str) -> Task[..., Any] | None:
    """The task that a type names. Of what can be imported only Django's tasks count."""
    known = registry.get(path)
    if known is not None:
        return known.function.task if isinstance(known.function, Run) else None
    try:
        found = import_string(path)
    except ImportError:
        return None
    return found if isinstance(found, Task) else None


def _can_be_an_id(id: object) -> bool:
    """Other text the driver refuses."""
    return isinstance(id, str) and "\0" not in id and not any("\ud800" <= c <= "\udfff" for c in id)
