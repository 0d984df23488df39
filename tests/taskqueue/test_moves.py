"""What persons and programs may do to tasks: each move changes what it says, and is recorded with who and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from taskqueue import events, operations
from taskqueue.models import Task, TaskTransition
from taskqueue.operations import MoveReport
from tests.support.tasks_in_state import STATES, task_in

pytestmark = pytest.mark.django_db

type Move = Callable[..., MoveReport]


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []

    def hear(data: dict[str, Any], **_: object) -> None:
        heard.append(data)

    for event in (events.TRANSITION, events.TRANSITION_REFUSED):
        event.signal.connect(hear)
    yield heard
    for event in (events.TRANSITION, events.TRANSITION_REFUSED):
        event.signal.disconnect(hear)


def test_retry_gives_a_dead_task_another_life_due_at_once(told: list[dict[str, Any]]) -> None:
    task = task_in("dead", lost_count=2, dedupe_key="k", embargo_until=datetime(2099, 1, 1, tzinfo=UTC))

    report = operations.retry(Task.objects.all(), actor="ann", reason="mended")

    task.refresh_from_db()
    assert (report.event, report.moved, dict(report.refused), report.ids) == ("retry", 1, {}, (task.id,))
    assert (task.status, task.retry_count, task.lost_count, task.finished_at) == ("pending", 0, 0, None)
    # The fence goes on counting; the last error stays to be seen.
    assert (task.attempt, task.message) == (11, "it failed")
    assert task.embargo_until <= datetime.now(UTC)
    assert _recorded() == [(task.id, "dead", "pending", "retry", "ann", "mended")]
    assert told == [{"move": "retry", "task_id": task.id, "count": 1, "actor": "ann", "reason": "mended"}]


def test_run_now_lifts_the_embargo_and_never_lays_one() -> None:
    scheduled, due = task_in("scheduled"), task_in("due")
    before = due.embargo_until

    report = operations.run_now(Task.objects.all(), actor="ann")

    scheduled.refresh_from_db()
    due.refresh_from_db()
    assert report.moved == 2
    assert scheduled.embargo_until <= datetime.now(UTC)
    assert due.embargo_until == before
    assert {row[1:4] for row in _recorded()} == {("pending", "pending", "run_now")}


@pytest.mark.parametrize("state", ["due", "scheduled", "retrying", "dead"])
def test_dead_letter_sets_a_task_aside_for_good(state: str) -> None:
    task = task_in(state)
    before = task.status

    report = operations.dead_letter(Task.objects.all(), actor="ann", reason="not wanted")

    task.refresh_from_db()
    assert report.moved == 1
    assert (task.status, task.error_code) == ("dead_lettered", "dead_lettered")
    assert task.finished_at is not None
    assert _recorded() == [(task.id, before, "dead_lettered", "dead_letter", "ann", "not wanted")]


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_dead_letter_needs_a_reason(reason: str) -> None:
    task = task_in("due")

    with pytest.raises(ValueError, match="reason"):
        operations.dead_letter(Task.objects.all(), actor="ann", reason=reason)

    task.refresh_from_db()
    assert task.status == "pending"


@pytest.mark.parametrize("state", ["success", "dead", "dead_lettered"])
def test_resubmit_makes_a_new_task_and_leaves_the_old_one_as_it_was(state: str) -> None:
    old = task_in(state, payload={"n": [1]}, queue="slow", priority=4, max_retries=2, dedupe_key="k", lost_count=1)
    before = Task.objects.filter(pk=old.pk).values().get()

    report = operations.resubmit(Task.objects.filter(pk=old.pk), actor="ann")

    copy = Task.objects.exclude(pk=old.pk).get()
    assert (report.moved, report.ids) == (1, (copy.id,))
    assert Task.objects.filter(pk=old.pk).values().get() == before
    assert (copy.origin_id, copy.correlation_id, copy.status) == (old.id, old.correlation_id, "pending")
    assert (copy.task_type, copy.payload, copy.queue) == ("test.noop", {"n": [1]}, "slow")
    assert (copy.priority, copy.max_retries) == (4, 2)
    assert (copy.dedupe_key, copy.attempt, copy.retry_count, copy.lost_count, copy.message) == (None, 0, 0, 0, None)
    assert [row[0] for row in _recorded()] == [old.id]


_REFUSALS: list[tuple[Move, dict[str, str]]] = [
    (operations.retry, {"due": "invalid_transition", "running": "invalid_transition", "success": "terminal_state"}),
    (operations.run_now, {"running": "invalid_transition", "dead": "invalid_transition", "success": "terminal_state"}),
    (operations.dead_letter, {"running": "invalid_transition", "dead_lettered": "terminal_state"}),
    (operations.resubmit, {"due": "invalid_transition", "running": "invalid_transition"}),
]


@pytest.mark.parametrize(("move", "codes"), _REFUSALS)
def test_tasks_that_may_not_move_are_counted_by_code_and_stay_as_they_are(
    move: Move, codes: dict[str, str], told: list[dict[str, Any]]
) -> None:
    for state in codes:
        task_in(state)
    before = list(Task.objects.order_by("id").values())

    report = move(Task.objects.all(), actor="ann", reason="because")

    assert (report.moved, dict(report.refused)) == (0, Counter(codes.values()))
    assert list(Task.objects.order_by("id").values()) == before
    assert _recorded() == []
    assert {data["code"]: data["count"] for data in told} == Counter(codes.values())


def test_a_mixed_selection_moves_what_may_move_and_counts_the_rest() -> None:
    for state in STATES:
        task_in(state)

    report = operations.dead_letter(Task.objects.all(), actor="ann", reason="because")

    assert report.moved == 4
    assert dict(report.refused) == {"invalid_transition": 1, "terminal_state": 2}
    assert TaskTransition.objects.count() == 4


def test_a_dead_task_whose_key_a_pending_one_holds_is_not_retried() -> None:
    task_in("due", dedupe_key="k")
    dead = task_in("dead", dedupe_key="k")

    report = operations.retry(Task.objects.filter(pk=dead.pk), actor="ann")

    assert (report.moved, dict(report.refused)) == (0, {"superseded": 1})


def test_of_several_dead_tasks_with_one_key_the_newest_is_retried() -> None:
    for id in ("a", "b", "c"):
        task_in("dead", id=id, dedupe_key="k")
    task_in("dead", id="other")

    report = operations.retry(Task.objects.all(), actor="ann")

    assert (report.moved, dict(report.refused)) == (2, {"superseded": 2})
    assert set(Task.objects.filter(status="pending").values_list("id", flat=True)) == {"c", "other"}


def test_more_tasks_than_a_chunk_move_once_each() -> None:
    now = datetime.now(UTC)
    Task.objects.bulk_create(
        Task(id=f"task_{n:05}", task_type="test.noop", status="dead", finished_at=now) for n in range(5_100)
    )

    # Those that moved leave the selection while it is being worked through.
    report = operations.retry(Task.objects.filter(status="dead"), actor="ann")

    assert (report.moved, len(report.ids)) == (5_100, 100)
    assert Task.objects.filter(status="pending").count() == TaskTransition.objects.count() == 5_100


def test_actor_and_reason_that_postgresql_refuses_are_cleaned() -> None:
    task_in("dead")

    operations.retry(Task.objects.all(), actor="an\x00n", reason="bec\ud800ause" + "!" * 10_000)

    row = TaskTransition.objects.get()
    assert row.actor == "an\N{REPLACEMENT CHARACTER}n"
    assert row.reason.startswith("bec\N{REPLACEMENT CHARACTER}ause")


def _recorded() -> list[tuple[str, str, str, str, str, str]]:
    rows = TaskTransition.objects.order_by("id")
    return [(row.task_id, row.from_status, row.to_status, row.event, row.actor, row.reason) for row in rows]
