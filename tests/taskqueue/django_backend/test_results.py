"""Results of Django's tasks: found by id, refreshed, with one worker and one error for each attempt."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.tasks import TaskResultStatus, default_task_backend, task_backends
from django.tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch
from django.tasks.signals import task_finished, task_started
from django.utils import timezone

from taskqueue import operations
from taskqueue.handlers import registry
from taskqueue.in_process import drain_due
from taskqueue.models import Task, TaskAttempt
from tests.support import django_tasks
from tests.taskqueue.django_backend.conftest import Heard

pytestmark = pytest.mark.django_db


def _later(hours: float) -> Any:
    return timezone.now() + timedelta(hours=hours)


def test_a_success() -> None:
    result: Any = django_tasks.add.enqueue(2, 3)
    drain_due()

    assert result.status == TaskResultStatus.READY
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.is_finished
    assert result.return_value == 5
    assert result.attempts == 1
    assert result.errors == []
    assert result.started_at == result.last_attempted_at
    assert result.finished_at is not None
    (worker_id,) = result.worker_ids
    assert worker_id not in ("", "unknown")


def test_an_async_refresh() -> None:
    result: Any = django_tasks.add_async.enqueue(2, 3)
    drain_due()

    async_to_sync(result.arefresh)()

    assert result.return_value == 5


@pytest.mark.parametrize("value", [None, 0, "", [], {"a": [1, None, 2.5]}, "ünïcode", True])
def test_what_a_function_returns(value: object) -> None:
    result = django_tasks.echo.enqueue(value)
    drain_due()

    result.refresh()
    assert result.return_value == value


def test_a_return_value_that_is_not_json_is_a_failure(signals: Heard) -> None:
    result = django_tasks.as_a_set.enqueue()
    Task.objects.update(max_retries=0)
    drain_due()

    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class is TypeError
    assert signals[-1][2] == TaskResultStatus.FAILED


def test_a_failure_tells_class_and_traceback() -> None:
    result = django_tasks.fail.enqueue("order 7")
    Task.objects.update(max_retries=0)
    drain_due()

    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.is_finished
    (error,) = result.errors
    assert error.exception_class is django_tasks.OrderLost
    assert error.exception_class_path == "tests.support.django_tasks.OrderLost"
    assert "order 7" in error.traceback and "def fail" not in error.traceback
    assert error.traceback.startswith("Traceback (most recent call last)")
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


@pytest.mark.parametrize(("task", "kind"), [(django_tasks.leave, SystemExit), (django_tasks.fail_async, ValueError)])
def test_any_exception_of_any_function_is_a_failure(task: Any, kind: type[BaseException]) -> None:
    result = task.enqueue()
    Task.objects.update(max_retries=0)
    drain_due()

    result.refresh()
    assert result.errors[0].exception_class is kind


def test_each_attempt_has_a_worker_and_each_failed_one_an_error() -> None:
    result = django_tasks.attempt.enqueue(fail_until=3)

    drain_due()
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.READY, 1, 1)
    first_start = result.started_at
    drain_due(now=_later(1))
    drain_due(now=_later(2))
    result.refresh()

    assert result.return_value == [3, result.id, 3, 2, "RUNNING"]
    assert len(set(result.worker_ids)) == 3
    assert [error.exception_class for error in result.errors] == [ValueError, ValueError]
    assert ["attempt 1" in result.errors[0].traceback, "attempt 2" in result.errors[1].traceback] == [True, True]
    assert result.started_at == first_start


def test_the_context_of_an_async_task() -> None:
    result: Any = django_tasks.attempt_async.enqueue()
    drain_due()

    result.refresh()
    assert result.return_value == 1


def test_giving_up_fails_at_once() -> None:
    result = django_tasks.give_up.enqueue()
    drain_due()

    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class_path == "taskqueue.errors.GiveUp"
    assert "order 7 was never placed" in result.errors[0].traceback


def test_an_attempt_that_only_waits_has_a_worker_and_no_error(signals: Heard) -> None:
    result = django_tasks.too_early.enqueue()
    drain_due()

    result.refresh()
    assert (result.status, result.attempts, result.errors) == (TaskResultStatus.READY, 1, [])
    assert [name for name, _, _ in signals] == ["enqueued", "started"]


def test_a_lost_worker_is_an_error_too() -> None:
    result = django_tasks.noop.enqueue()
    Task.objects.update(
        status="running",
        attempt=1,
        worker_id="gone",
        started_at=_later(-2),
        lease_until=_later(-1),
    )
    result.refresh()
    assert (result.status, result.worker_ids) == (TaskResultStatus.RUNNING, ["gone"])

    drain_due()

    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.worker_ids[0] == "gone" and len(result.worker_ids) == 2
    assert result.errors[0].exception_class_path == "taskqueue.errors.WorkerLost"
    assert issubclass(result.errors[0].exception_class, Exception)


def test_a_task_retried_by_a_person_keeps_its_history() -> None:
    result = django_tasks.fail_once.enqueue()
    drain_due()
    operations.retry(Task.objects.all(), actor="ann")
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 1)

    drain_due()

    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.FAILED, 2, 2)


def test_one_set_aside_before_it_ran_has_failed() -> None:
    result = django_tasks.noop.enqueue()
    operations.dead_letter(Task.objects.all(), actor="ann", reason="not needed")

    result.refresh()
    assert (result.status, result.attempts, result.errors) == (TaskResultStatus.FAILED, 0, [])


def test_a_result_is_found_by_its_id_through_task_and_backend() -> None:
    async def find(id: str) -> tuple[Any, Any]:
        return await django_tasks.urgent.aget_result(id), await default_task_backend.aget_result(id)

    result = django_tasks.urgent.enqueue()
    drain_due()

    for found in (
        django_tasks.urgent.get_result(result.id),
        default_task_backend.get_result(result.id),
        *async_to_sync(find)(result.id),
    ):
        assert found.task == django_tasks.urgent
        assert (found.id, found.task.priority, found.return_value) == (result.id, 7, "done")


def test_a_result_of_another_task_is_a_mismatch() -> None:
    result = django_tasks.add.enqueue(1)

    with pytest.raises(TaskResultMismatch):
        django_tasks.noop.get_result(result.id)
    with pytest.raises(TaskResultMismatch):
        async_to_sync(django_tasks.noop.aget_result)(result.id)


@pytest.mark.parametrize("id", ["123", "", "task_\0", "\ud800", 7, None, "x" * 10_000, "' OR 1=1"])
def test_unknown_and_malformed_ids(id: Any) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(id)
    with pytest.raises(TaskResultDoesNotExist):
        async_to_sync(django_tasks.noop.aget_result)(id)


@pytest.mark.parametrize("path", ["os.getcwd", "tests.support.django_tasks.no_task", "no.such.module", "nothing"])
def test_what_is_no_task_of_djangos_has_no_result_and_is_never_run(path: str) -> None:
    row = Task.objects.create(task_type=path, payload={"args": [], "kwargs": {}})

    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(row.id)
    assert drain_due().ran == 0


@pytest.mark.parametrize("payload", [None, [], {"args": []}, {"args": [], "kwargs": {}, "path": "os.getcwd"}])
def test_a_payload_that_is_no_call_is_discarded(payload: Any) -> None:
    row = Task.objects.create(task_type="tests.support.django_tasks.noop", payload=payload)

    assert drain_due().dead_lettered == 1
    row.refresh_from_db()
    assert row.error_code == "invalid_payload"
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(row.id)


def test_a_function_that_this_process_has_not_loaded_is_found_by_its_path() -> None:
    result = django_tasks.add.enqueue(1)
    registry.remove("tests.support.django_tasks.add")
    try:
        assert default_task_backend.get_result(result.id).task == django_tasks.add
    finally:
        django_tasks.add.using(priority=1)

    assert "tests.support.django_tasks.add" in registry.handlers


def test_signals_of_a_run_come_from_the_backends_class(signals: Heard) -> None:
    django_tasks.add.enqueue(1)
    django_tasks.fail_once.using(priority=-1).enqueue()
    drain_due()

    backend = type(task_backends["default"])
    assert signals == [
        ("enqueued", backend, "READY"),
        ("enqueued", backend, "READY"),
        ("started", backend, "RUNNING"),
        ("finished", backend, "SUCCESSFUL"),
        ("started", backend, "RUNNING"),
        ("finished", backend, "FAILED"),
    ]


def test_nothing_has_finished_while_another_try_follows(signals: Heard) -> None:
    django_tasks.fail.enqueue("again")
    drain_due()

    assert [name for name, _, _ in signals] == ["enqueued", "started"]


def test_a_receiver_that_raises_is_not_the_tasks_failure() -> None:
    def explode(**_: Any) -> None:
        raise RuntimeError("the receiver")

    task_started.connect(explode)
    task_finished.connect(explode)
    try:
        django_tasks.noop.enqueue()
        assert drain_due().succeeded == 1
    finally:
        task_started.disconnect(explode)
        task_finished.disconnect(explode)
    assert not TaskAttempt.objects.exists()
