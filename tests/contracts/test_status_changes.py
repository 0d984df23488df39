"""The database refuses every change of status that is no move, whoever asks, with an error naming both states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from taskqueue.lifecycle import FINAL, PAIRS, Status
from taskqueue.models import Task
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db

_MATRIX = list(product(Status, Status))
_ALLOWED = [pair for pair in _MATRIX if pair in PAIRS or pair[0] is pair[1]]
_REFUSED = [pair for pair in _MATRIX if pair not in _ALLOWED]


@pytest.mark.parametrize(("source", "target"), _ALLOWED)
def test_a_move_passes_in_plain_sql(source: Status, target: Status) -> None:
    task = _task(source)

    _update_in_sql(task, target)

    task.refresh_from_db()
    assert task.status == target


@pytest.mark.parametrize(("source", "target"), _REFUSED)
def test_any_other_change_is_refused_in_plain_sql_naming_both_states(source: Status, target: Status) -> None:
    task = _task(source)

    with pytest.raises(IntegrityError, match=f"task {task.id} cannot move from {source} to {target}\n") as refused:
        _update_in_sql(task, target)

    task.refresh_from_db()
    assert task.status == source
    assert _diagnosis(refused.value).constraint_name == "tasks_legal_move"


@pytest.mark.parametrize(("source", "target"), _REFUSED)
def test_any_other_change_is_refused_to_a_query_set(source: Status, target: Status) -> None:
    task = _task(source)

    with pytest.raises(IntegrityError, match=f"from {source} to {target}\n"), transaction.atomic():
        Task.objects.filter(pk=task.pk).update(**_columns_for(task, target))

    task.refresh_from_db()
    assert task.status == source


def test_a_state_that_is_not_declared_is_refused() -> None:
    task = _task(Status.PENDING)

    with pytest.raises(IntegrityError, match="cannot move from pending to paused"), transaction.atomic():
        Task.objects.filter(pk=task.pk).update(status="paused")
    with pytest.raises(IntegrityError, match="tasks_status_declared"), transaction.atomic():
        Task.objects.create(task_type="test.noop", status="paused")


@pytest.mark.parametrize(
    ("state", "columns", "why"),
    [
        ("due", {"finished_at": datetime.now(UTC)}, "tasks_finished_at_in_final_states"),
        ("success", {"finished_at": None}, "tasks_finished_at_in_final_states"),
        ("due", {"worker_id": "w"}, "tasks_lease_while_running"),
        ("running", {"lease_until": None}, "tasks_lease_while_running"),
        ("running", {"worker_id": None}, "tasks_lease_while_running"),
        ("due", {"retry_count": -1}, "tasks_counts_not_negative"),
        ("due", {"max_retries": -1}, "tasks_counts_not_negative"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(state: str, columns: dict[str, Any], why: str) -> None:
    task = task_in(state)

    with pytest.raises(IntegrityError, match=why), transaction.atomic():
        Task.objects.filter(pk=task.pk).update(**columns)


def test_the_fence_never_shrinks() -> None:
    task = task_in("running", attempt=3)

    with pytest.raises(IntegrityError, match=r"never shrinks \(3 to 2\)"), transaction.atomic():
        Task.objects.filter(pk=task.pk).update(attempt=2)


def test_a_claim_that_does_not_raise_the_fence_is_refused() -> None:
    task = task_in("retrying")

    with pytest.raises(IntegrityError, match="grows with each claim"), transaction.atomic():
        Task.objects.filter(pk=task.pk).update(**{**_columns_for(task, Status.RUNNING), "attempt": task.attempt})


def _task(status: Status) -> Task:
    return task_in("due" if status is Status.PENDING else status.value)


def _columns_for(task: Task, target: Status) -> dict[str, Any]:
    """Everything else about the row as the state asks for, so that only the change of status can be in the way."""
    now = datetime.now(UTC)
    return {
        "status": target.value,
        "attempt": task.attempt + 1,
        "finished_at": now if target in FINAL else None,
        "worker_id": "w" if target is Status.RUNNING else None,
        "lease_until": now + timedelta(minutes=1) if target is Status.RUNNING else None,
    }


def _update_in_sql(task: Task, target: Status) -> None:
    columns = _columns_for(task, target)
    changes = ", ".join(f"{name} = %({name})s" for name in columns)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE tasks SET {changes} WHERE id = %(id)s", {**columns, "id": task.id})  # noqa: S608


def _diagnosis(error: IntegrityError) -> Any:
    cause: Any = error.__cause__
    return cause.diag
