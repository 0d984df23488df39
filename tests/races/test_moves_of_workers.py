"""Statements of workers against each other and against whoever else holds a row, each interleaving staged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import pytest

from taskqueue import store
from taskqueue.database import Connection, Database
from taskqueue.lifecycle import Status
from taskqueue.models import Outcome, Task, TaskAttempt
from taskqueue.records import Completion, Room, Serving, Settlement
from taskqueue.statements import statement
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db(transaction=True)

_SECONDS = 20.0
_SERVING = Serving(task_types=("test.noop",), queues=None, worker_id="w", lease_seconds=60.0)
_ROOM = Room(slots=10, window=10, last_chance_free=True)
_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
_BLOCKED = """
    SELECT EXISTS (
        SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'race: worker' AND wait_event_type = 'Lock'
    )
"""


@pytest.fixture
def worker() -> Iterator[Connection]:
    with closing(Database(name="race").open("worker")) as connection:
        yield connection


@pytest.fixture
def other() -> Iterator[Connection]:
    with closing(Database(name="race").open("other")) as connection:
        yield connection


def _running(id: str, **values: Any) -> Task:
    return task_in("running", id=id, **values)


def _release(id: str, attempt: int = 1) -> Settlement:
    return Settlement(id=id, attempt=attempt, status=Status.PENDING, outcome=Outcome.RELEASED)


def _in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def _wait_until_blocked(watcher: Connection) -> None:
    pause = threading.Event()
    for _ in range(int(_SECONDS / 0.02)):
        row = watcher.execute(_BLOCKED).fetchone()
        if row is not None and row[0]:
            return
        pause.wait(0.02)
    raise AssertionError("the worker does not wait for a lock")


def test_a_renewal_passes_over_a_locked_row_and_moves_all_others(worker: Connection, other: Connection) -> None:
    for id in ("a", "b", "c"):
        _running(id, lease_until=_LONG_AGO)
    with other.transaction():
        other.execute("SELECT FROM tasks WHERE id = 'b' FOR UPDATE")

        renewed = store.renew(worker, [("a", 1), ("b", 1), ("c", 1), ("gone", 1)], lease_seconds=60.0)

    assert {(row.id, row.moved) for row in renewed} == {("a", True), ("b", False), ("c", True)}
    late = Task.objects.filter(lease_until=_LONG_AGO).values_list("id", flat=True)
    assert list(late) == ["b"]


@pytest.mark.parametrize(
    "finish",
    [
        lambda worker: store.complete(worker, [Completion(id=id, attempt=1, result=None) for id in ("b", "a")]),
        lambda worker: store.settle(worker, [_release("b"), _release("a")]),
    ],
    ids=["complete", "settle"],
)
def test_finishes_take_their_locks_in_the_order_of_the_key(
    worker: Connection, other: Connection, finish: Callable[[Connection], object]
) -> None:
    _running("a")
    _running("b")
    with other.transaction():
        other.execute("SELECT FROM tasks WHERE id = 'a' FOR UPDATE")
        finishing = _in_thread(lambda: finish(worker))
        _wait_until_blocked(other)
        # Whoever locks in the same order gets the next row too; in another order both would wait for each other.
        other.execute("SELECT FROM tasks WHERE id = 'b' FOR UPDATE NOWAIT")

    finishing.join(_SECONDS)
    assert Task.objects.filter(status="running").count() == 0


_CLAIM_AND_FAIL = (
    "UPDATE tasks SET status = 'running', attempt = 1, worker_id = 'x', lease_until = now() WHERE id = 'b'",
    "UPDATE tasks SET status = 'pending', worker_id = NULL, lease_until = NULL, retry_count = 1,"
    " embargo_until = now() + interval '1 h' WHERE id = 'b'",
)


@pytest.mark.parametrize(
    ("meanwhile", "claimed"),
    [
        (_CLAIM_AND_FAIL, ["a"]),
        (("UPDATE tasks SET status = 'dead_lettered', finished_at = now() WHERE id = 'b'",), ["a"]),
        (("DELETE FROM tasks WHERE id = 'b'",), ["a"]),
        (("UPDATE tasks SET message = 'looked at' WHERE id = 'b'",), ["a", "b"]),
    ],
    ids=["failed", "set aside", "deleted", "touched"],
)
def test_a_claim_takes_a_task_as_it_is_when_its_row_is_locked(
    worker: Connection, other: Connection, meanwhile: tuple[LiteralString, ...], claimed: list[str]
) -> None:
    """It has seen ``b`` due and has not locked it yet. A task that failed meanwhile has to wait for its backoff."""
    task_in("due", id="a", priority=1)
    task_in("due", id="b")
    # The statement, made to wait between its look and its locks.
    text = statement("claim").replace("FROM candidates\n)", "FROM candidates, pg_advisory_xact_lock(4711)\n)")
    parameters = {**_SERVING.parameters(), **_ROOM.parameters()}
    ids: list[str] = []
    other.execute("SELECT pg_advisory_lock(4711)")
    claiming = _in_thread(lambda: ids.extend(row[0] for row in worker.execute(text, parameters)))
    _wait_until_blocked(other)
    for change in meanwhile:
        other.execute(change)

    other.execute("SELECT pg_advisory_unlock(4711)")

    claiming.join(_SECONDS)
    assert sorted(ids) == claimed
    assert list(Task.objects.filter(status="running").order_by("id").values_list("id", flat=True)) == claimed


def test_of_two_running_tasks_with_one_key_the_newer_returns_and_the_older_is_superseded(worker: Connection) -> None:
    for id in ("a", "b"):
        _running(id, dedupe_key="the key")

    settled = store.settle(worker, [_release("b"), _release("a")])

    assert {(row.id, row.status, row.superseded) for row in settled} == {
        ("a", "dead_lettered", True),
        ("b", "pending", False),
    }
    assert TaskAttempt.objects.get(task_id="a").next_try_at is None


def test_a_running_row_without_a_start_is_taken_over_like_any_other(worker: Connection) -> None:
    """Other programs may write it so, and one row must not keep all workers from their work."""
    _running("lost", worker_id="x", lease_until=_LONG_AGO, started_at=None)
    _running("loop", worker_id="x", lease_until=_LONG_AGO, started_at=None, lost_count=2)
    _running("held", started_at=None)

    assert [loop.id for loop in store.discard_crash_loops(worker, "w")] == ["loop"]
    assert [claim.id for claim in store.reclaim(worker, _SERVING, _ROOM)] == ["lost"]
    assert [row.id for row in store.settle(worker, [_release("held")])] == ["held"]
    assert TaskAttempt.objects.filter(started_at__isnull=False).count() == 3


def test_an_attempt_that_has_a_row_already_is_settled_all_the_same(worker: Connection) -> None:
    """As after a dump of one table was restored."""
    for id, values in {
        "lost": {"worker_id": "x", "lease_until": _LONG_AGO},
        "loop": {"worker_id": "x", "lease_until": _LONG_AGO, "lost_count": 2},
        "held": {},
    }.items():
        _running(id, **values)
        TaskAttempt.objects.create(
            task_id=id, attempt=1, worker_id="restored", started_at=_LONG_AGO, outcome=Outcome.FAILED
        )

    store.discard_crash_loops(worker, "w")
    store.reclaim(worker, _SERVING, _ROOM)
    store.settle(worker, [_release("held")])

    rows = Task.objects.order_by("id").values_list("id", "status", "attempt")
    assert list(rows) == [("held", "pending", 1), ("loop", "dead_lettered", 1), ("lost", "running", 2)]


def test_a_locked_companion_of_a_crash_keeps_no_worker_from_ending_the_crash_loop(
    worker: Connection, other: Connection
) -> None:
    _running("culprit", attempt=3, lost_count=2, worker_id="x", lease_until=_LONG_AGO)
    for id in ("free", "locked"):
        task_in("due", id=id, attempt=2, lost_count=1)
    for id, attempt in (("culprit", 2), ("free", 1), ("locked", 1)):
        TaskAttempt.objects.create(
            task_id=id, attempt=attempt, worker_id="before", started_at=_LONG_AGO, outcome=Outcome.LOST
        )
    with other.transaction():
        other.execute("SELECT FROM tasks WHERE id = 'locked' FOR UPDATE")

        assert [loop.id for loop in store.discard_crash_loops(worker, "w")] == ["culprit"]

    assert dict(Task.objects.values_list("id", "lost_count")) == {"culprit": 3, "free": 0, "locked": 1}


def test_a_crowd_at_its_last_chance_hides_nothing_that_is_due_behind_it(worker: Connection) -> None:
    for _ in range(30):
        task_in("due", lost_count=2, priority=5)
    healthy = {task_in("due").id for _ in range(10)}

    alone = store.claim(worker, _SERVING, _ROOM)
    beside_it = store.claim(worker, _SERVING, Room(slots=10, window=10, last_chance_free=False))

    assert [claim.last_chance for claim in alone] == [True]
    assert {claim.id for claim in beside_it} == healthy


def test_of_two_attempts_of_one_task_only_the_one_that_holds_it_is_completed(worker: Connection) -> None:
    _running("a", attempt=3)

    done = [Completion(id="a", attempt=attempt, result=None) for attempt in (1, 3)]

    assert store.complete(worker, done) == {("a", 3)}


def test_a_finish_is_known_as_ours_even_after_the_task_was_claimed_again(worker: Connection) -> None:
    for id in ("finished", "finished_and_claimed", "lost"):
        _running(id, worker_id="x", lease_until=datetime.now(UTC) + timedelta(minutes=1))
    store.settle(worker, [_release("finished_and_claimed")])
    assert [claim.id for claim in store.claim(worker, _SERVING, _ROOM)] == ["finished_and_claimed"]
    store.settle(worker, [_release("finished")])
    Task.objects.filter(id="lost").update(lease_until=_LONG_AGO)
    store.reclaim(worker, _SERVING, _ROOM)

    ours = store.own_finishes(worker, [(id, 1) for id in ("finished", "finished_and_claimed", "lost")])

    assert ours == {("finished", 1), ("finished_and_claimed", 1)}
