"""Enqueueing Django's tasks: what is stored, what comes back, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.tasks import TaskResultStatus, default_task_backend, task_backends
from django.tasks.base import Task as DjangoTask
from django.tasks.exceptions import InvalidTask
from django.utils import timezone
from pytest_django.fixtures import Settings

from taskqueue.in_process import drain_due
from taskqueue.models import Task
from tests.support import django_tasks
from tests.taskqueue.django_backend.conftest import Heard

pytestmark = pytest.mark.django_db


def test_a_task_is_a_row_and_its_result_is_ready() -> None:
    result = django_tasks.add.enqueue(2, right=3)

    row = Task.objects.get()
    assert (row.id, row.task_type) == (result.id, "tests.support.django_tasks.add")
    assert row.payload == {"args": [2], "kwargs": {"right": 3}}
    assert result.status == TaskResultStatus.READY
    assert not result.is_finished
    assert result.task is django_tasks.add
    assert (result.args, result.kwargs, result.backend) == ([2], {"right": 3}, "default")
    assert result.enqueued_at == row.created_at
    assert (result.started_at, result.last_attempted_at, result.finished_at) == (None, None, None)
    assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value


@pytest.mark.parametrize("task", [django_tasks.noop, django_tasks.noop_async])
def test_sync_and_async_tasks_are_enqueued_from_sync_and_async_code(task: Any) -> None:
    async def enqueue() -> Any:
        return await task.aenqueue(1)

    result: Any
    for result in (task.enqueue(1), async_to_sync(enqueue)(), default_task_backend.enqueue(task, [1], {})):
        assert Task.objects.get(id=result.id).payload == {"args": [1], "kwargs": {}}


def test_priority_queue_and_time_are_those_of_the_copy(settings: Settings) -> None:
    settings.TASKS = {"default": {"BACKEND": "taskqueue.django_backend.TaskQueueBackend", "QUEUES": ["mail"]}}
    later = timezone.now() + timedelta(hours=3)

    result = django_tasks.noop.using(priority=-100, queue_name="mail", run_after=later).enqueue()

    row = Task.objects.get()
    assert (row.priority, row.queue, row.embargo_until) == (-100, "mail", later)
    assert (result.task.priority, result.task.queue_name, result.task.run_after) == (-100, "mail", later)


def test_a_deferred_task_runs_when_its_time_has_come() -> None:
    django_tasks.noop.using(run_after=timezone.now() + timedelta(hours=1)).enqueue()

    assert drain_due().ran == 0
    assert drain_due(now=timezone.now() + timedelta(hours=2)).succeeded == 1


def test_a_naive_instant_is_local_time_where_time_zones_are_off(settings: Settings) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Europe/Berlin"
    naive = datetime(2030, 1, 1, 12)  # noqa: DTZ001 - what is tested

    django_tasks.noop.using(run_after=naive).enqueue()

    settings.USE_TZ = True
    assert Task.objects.get().embargo_until.isoformat() == "2030-01-01T11:00:00+00:00"


def test_a_higher_priority_goes_first() -> None:
    ids = [django_tasks.noop.using(priority=priority).enqueue().id for priority in (-5, 50, 0)]

    drain_due(limit=1)

    assert list(Task.objects.filter(status="success").values_list("id", flat=True)) == [ids[1]]


@pytest.mark.parametrize("value", [object(), {1, 2}, datetime(2030, 1, 1), print])  # noqa: DTZ001 - no JSON either way
def test_arguments_that_are_not_json_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="Unsupported type"):
        django_tasks.noop.enqueue(value)
    with pytest.raises(TypeError, match="Unsupported type"):
        django_tasks.noop.enqueue(key=[value])
    assert not Task.objects.exists()


@pytest.mark.parametrize("value", ["\0", "\ud800", float("nan"), {"a\0": 1}])
def test_arguments_that_postgresql_refuses_are_refused_before(value: object) -> None:
    with pytest.raises(InvalidTask, match="payload"):
        django_tasks.noop.enqueue(value)
    assert not Task.objects.exists()


def test_arguments_come_back_as_json_has_them() -> None:
    result = django_tasks.noop.enqueue((1, 2), b"bytes", deep={"tuple": (3,), "none": None})

    expected = ([[1, 2], "bytes"], {"deep": {"tuple": [3], "none": None}})
    assert (result.args, result.kwargs) == expected
    again = default_task_backend.get_result(result.id)
    assert (again.args, again.kwargs) == expected


def test_rolled_back_means_never_enqueued() -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        django_tasks.noop.enqueue()
        raise RuntimeError

    assert not Task.objects.exists()


def test_the_signal_is_sent_by_the_backends_class(signals: Heard) -> None:
    django_tasks.noop.enqueue()

    assert signals == [("enqueued", type(task_backends["default"]), TaskResultStatus.READY)]


def test_a_task_declared_with_another_backend_is_taken_as_it_is() -> None:
    """Where settings changed after the declaration, a plain task of Django's arrives."""
    plain: Any = DjangoTask(func=django_tasks.add.func)

    result = plain.enqueue(1, 2)

    assert drain_due().succeeded == 1
    result.refresh()
    assert result.return_value == 3


def test_options_reach_the_row() -> None:
    first = django_tasks.with_options.enqueue()

    row = Task.objects.get()
    assert (row.max_retries, row.dedupe_key) == (0, "only one")
    assert first.id == row.id


def test_while_a_pending_task_has_the_key_its_result_comes_back(signals: Heard) -> None:
    first = django_tasks.with_key.enqueue(7, note="first")
    second = django_tasks.with_key.enqueue(7, note="second")
    other = django_tasks.with_key.enqueue(8)

    assert first.id == second.id != other.id
    assert second.kwargs == {"note": "first"}
    assert [name for name, _, _ in signals] == ["enqueued", "enqueued"]

    drain_due()
    assert django_tasks.with_key.enqueue(7).id != first.id


def test_a_key_that_cannot_be_stored_is_refused() -> None:
    with pytest.raises(InvalidTask, match="dedupe_key"):
        django_tasks.with_key.enqueue("\n")


def test_in_immediate_mode_the_result_is_there_once_the_transaction_is(
    settings: Settings, signals: Heard, django_capture_on_commit_callbacks: Any
) -> None:
    settings.TASKQUEUE = {**settings.TASKQUEUE, "MODE": "immediate"}

    with django_capture_on_commit_callbacks(execute=True):
        result = django_tasks.add.enqueue(1, 2)
        assert result.status == TaskResultStatus.READY

    result.refresh()
    assert result.return_value == 3
    assert [name for name, _, _ in signals] == ["enqueued", "started", "finished"]


@pytest.mark.django_db(transaction=True)
def test_in_immediate_mode_without_a_transaction_the_result_is_finished(settings: Settings, signals: Heard) -> None:
    settings.TASKQUEUE = {**settings.TASKQUEUE, "MODE": "immediate"}

    assert django_tasks.add.enqueue(1, 2).return_value == 3
    assert [name for name, _, _ in signals] == ["enqueued", "started", "finished"]
