"""What a person's move counts: every task of the selection once, and nothing else."""

from __future__ import annotations

import pytest

from taskqueue import operations
from taskqueue.models import Task, TaskAttempt, TaskTransition
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db


def test_resubmit_makes_one_copy_of_each_although_the_copies_enter_the_selection() -> None:
    """Committed copies are seen by the next look for more, and a worker may have finished them by then."""
    first, second = task_in("success"), task_in("dead")

    report = operations.resubmit(Task.objects.filter(task_type="test.noop"), actor="ann")

    assert (report.moved, dict(report.refused)) == (2, {})
    assert set(Task.objects.filter(origin__isnull=False).values_list("origin_id", flat=True)) == {first.id, second.id}


def test_a_task_that_a_join_selects_several_times_is_counted_once() -> None:
    task = task_in("dead")
    for attempt in (1, 2, 3):
        TaskAttempt.objects.create(
            task=task, attempt=attempt, worker_id="w", started_at=task.created_at, outcome="failed", error_code="error"
        )

    report = operations.retry(Task.objects.filter(attempts__error_code="error"), actor="ann")

    assert (report.moved, dict(report.refused)) == (1, {})
    assert TaskTransition.objects.count() == 1


def test_an_empty_id_is_an_id_like_any_other() -> None:
    task_in("dead", id="")

    assert operations.retry(Task.objects.all(), actor="ann").moved == 1
