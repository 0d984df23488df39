"""Persons and workers at one task: the lock decides who comes first, and the other is told the truth."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import connection as django_connection

from taskqueue import store
from taskqueue.lifecycle import Status
from taskqueue.models import Outcome, Task, TaskAttempt, TaskTransition
from taskqueue.operations import MoveReport, dead_letter, resubmit, retry, run_now
from taskqueue.records import Settlement
from tests.support.held import finish_of, finishes_of, success
from tests.support.sessions import DEADLINE_SECONDS, Connect, claim, wait_until_blocked
from tests.support.tasks_in_state import task_in


def test_a_person_who_comes_after_the_claim_is_refused_and_the_run_goes_on(connect: Connect) -> None:
    task = task_in("due")
    worker, watcher = connect(), connect()

    with ThreadPoolExecutor(1) as pool:
        with worker.transaction():
            (claimed,) = claim(worker)
            report = _set_aside(pool)
            wait_until_blocked(watcher)
        refused = report.result(DEADLINE_SECONDS)
    (written,) = finishes_of(finish_of(claimed, success())).write(worker)

    assert (refused.moved, dict(refused.refused)) == (0, {"invalid_transition": 1})
    assert written.kept
    assert Task.objects.get(id=task.id).status == "success"
    assert not TaskTransition.objects.exists()


def test_a_claim_passes_over_what_a_person_is_setting_aside(connect: Connect) -> None:
    set_aside, free = task_in("due", id="a"), task_in("due", id="b")
    person, worker = connect(), connect()

    with person.transaction():
        person.execute("UPDATE tasks SET status = 'dead_lettered', finished_at = now() WHERE id = %s", [set_aside.id])
        during = claim(worker)

    assert [task.id for task in during] == [free.id]
    assert claim(worker) == []


@pytest.mark.parametrize(
    ("state", "move"),
    [
        ("dead", lambda: retry(Task.objects.all(), actor="ann")),
        ("scheduled", lambda: run_now(Task.objects.all(), actor="ann")),
        ("due", lambda: dead_letter(Task.objects.all(), actor="ann", reason="because")),
        ("dead", lambda: resubmit(Task.objects.all(), actor="ann")),
    ],
)
def test_a_task_deleted_meanwhile_is_counted_as_not_found(
    connect: Connect, state: str, move: Callable[[], MoveReport]
) -> None:
    task_in(state, id="gone")
    task_in(state, id="stays")
    other, watcher = connect(), connect()

    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.execute("DELETE FROM tasks WHERE id = 'gone'")
            moving = pool.submit(_elsewhere, move)
            wait_until_blocked(watcher)
        report = moving.result(DEADLINE_SECONDS)

    assert (report.moved, dict(report.refused)) == (1, {"not_found": 1})


def test_two_persons_retry_five_hundred_dead_tasks_at_the_same_moment_and_each_moves_once(connect: Connect) -> None:
    for n in range(500):
        task_in("dead", id=f"task_{n:03}")
    first, watcher = connect(), connect()

    with ThreadPoolExecutor(2) as pool:
        with first.transaction():
            first.execute("SELECT FROM tasks WHERE id = 'task_000' FOR UPDATE")
            both = [pool.submit(_elsewhere, _retry_all) for _ in range(2)]
            wait_until_blocked(watcher, count=2)
        reports = [one.result(DEADLINE_SECONDS) for one in both]

    assert sum(report.moved for report in reports) == 500
    assert sum(sum(report.refused.values()) for report in reports) == 500
    assert {code for report in reports for code in report.refused} == {"invalid_transition"}
    moves = TaskTransition.objects.filter(event="retry")
    assert moves.count() == moves.values("task").distinct().count() == 500
    assert Task.objects.filter(status="pending", retry_count=0).count() == 500


def test_a_failure_written_while_a_person_waits_for_the_row_is_what_the_person_finds(connect: Connect) -> None:
    task_in("running", id="a", worker_id="worker-a")
    worker, watcher = connect(), connect()
    end = Settlement(id="a", attempt=1, status=Status.DEAD, outcome=Outcome.FAILED, error_code="error", message="no")

    with ThreadPoolExecutor(1) as pool:
        with worker.transaction():
            assert store.settle(worker, [end])
            retrying = pool.submit(_elsewhere, _retry_all)
            wait_until_blocked(watcher)
        report = retrying.result(DEADLINE_SECONDS)

    assert report.moved == 1
    row = Task.objects.get(id="a")
    assert (row.status, row.retry_count, row.attempt) == ("pending", 0, 1)
    assert TaskAttempt.objects.filter(task="a", outcome="failed").count() == 1


def _retry_all() -> MoveReport:
    return retry(Task.objects.all(), actor="ann")


def _set_aside(pool: ThreadPoolExecutor) -> Future[MoveReport]:
    return pool.submit(_elsewhere, lambda: dead_letter(Task.objects.all(), actor="ann", reason="not wanted"))


def _elsewhere(move: Callable[[], MoveReport]) -> MoveReport:
    """In the calling thread's own session."""
    try:
        return move()
    finally:
        django_connection.close()
