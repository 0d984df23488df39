"""Workers are lost again and again: the task that kills them is found, and nobody else is charged for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskqueue import store
from taskqueue.database import Connection
from taskqueue.lifecycle import Event
from taskqueue.models import Task, TaskAttempt
from taskqueue.operations import retry
from taskqueue.outcomes import Ending
from taskqueue.records import Claim, Completion, CrashLoop
from tests.support.held import failed, finish_of, finishes_of, success
from tests.support.sessions import Connect, claim, expire_leases, reclaim, room_of, serving_of
from tests.support.tasks_in_state import task_in


def test_a_task_that_loses_three_workers_is_set_aside_as_a_crash_loop(connect: Connect) -> None:
    task_in("due", id="killer")
    connection = connect()

    claim(connection, serving_of(worker_id="worker-1"))
    for number in (2, 3):
        loops, taken = _worker_is_lost(connection, successor=f"worker-{number}")
        assert (loops, [t.lost_count for t in taken]) == ([], [number - 1])
    loops, taken = _worker_is_lost(connection, successor="worker-4")

    assert ([loop.id for loop in loops], taken) == (["killer"], [])
    assert (loops[0].lost_count, loops[0].lost_worker_id, loops[0].attempt) == (3, "worker-3", 3)
    row = Task.objects.get(id="killer")
    assert (row.status, row.error_code, row.lost_count, row.retry_count) == ("dead_lettered", "crash_loop", 3, 0)
    assert row.message is not None
    assert "lost 3 times" in row.message
    attempts = TaskAttempt.objects.filter(task="killer").order_by("attempt")
    assert [(a.attempt, a.outcome, a.worker_id, a.error_code) for a in attempts] == [
        (1, "lost", "worker-1", "worker_lost"),
        (2, "lost", "worker-2", "worker_lost"),
        (3, "lost", "worker-3", "crash_loop"),
    ]


def test_tasks_that_went_down_with_the_killer_get_their_losses_back(connect: Connect) -> None:
    for id in ("a", "killer", "z"):
        task_in("due", id=id)
    connection = connect()

    claim(connection, serving_of(worker_id="worker-1"))
    _, taken = _worker_is_lost(connection, successor="worker-2")
    assert sorted(task.id for task in taken) == ["a", "killer", "z"]
    # All are at their last chance now; the killer's turn comes, alone.
    expire_leases(connection)
    connection.execute("UPDATE tasks SET lost_count = 0, worker_id = 'worker-2' WHERE id <> 'killer'")
    connection.execute("UPDATE tasks SET lost_count = 2 WHERE id = 'killer'")
    (loop,) = store.discard_crash_loops(connection, "worker-3")
    taken = reclaim(connection, serving_of(worker_id="worker-3"))

    assert loop.id == "killer"
    assert sorted((task.id, task.lost_count) for task in taken) == [("a", 0), ("z", 0)]


def test_losses_of_companions_are_given_back_wherever_they_are_now(connect: Connect) -> None:
    for id in ("done", "killer", "waits"):
        task_in("due", id=id)
    connection = connect()
    claim(connection, serving_of(worker_id="worker-1"))
    _, taken = _worker_is_lost(connection, successor="worker-2")
    claims = {task.id: task for task in taken}
    finishes_of(finish_of(claims["done"], success())).write(connection)
    assert dict(Task.objects.values_list("id", "lost_count")) == {"done": 1, "killer": 1, "waits": 1}

    connection.execute("UPDATE tasks SET lost_count = 2 WHERE id = 'killer'")
    connection.execute("UPDATE tasks SET lease_until = now() - interval '1 s' WHERE id = 'killer'")
    assert store.discard_crash_loops(connection, "worker-3")

    assert dict(Task.objects.values_list("id", "lost_count")) == {"done": 0, "killer": 3, "waits": 0}


def test_tasks_at_their_last_chance_are_claimed_one_at_a_time(connect: Connect) -> None:
    for n in range(3):
        task_in("due", id=f"suspect_{n}", lost_count=2, priority=5)
        task_in("due", id=f"healthy_{n}")
    connection = connect()

    first = claim(connection, room=room_of(16))
    beside_it = claim(connection, room=room_of(16, last_chance_free=False))
    after_it = claim(connection, room=room_of(16))

    assert sorted(task.id for task in first) == ["healthy_0", "healthy_1", "healthy_2", "suspect_0"]
    assert beside_it == []
    assert [task.id for task in after_it] == ["suspect_1"]
    assert [task.last_chance for task in after_it] == [True]


def test_tasks_that_come_to_their_last_chance_are_taken_over_one_at_a_time(connect: Connect) -> None:
    for n in range(3):
        task_in("running", id=f"suspect_{n}", lost_count=1, worker_id="lost")
    task_in("running", id="healthy", worker_id="lost")
    connection = connect()
    expire_leases(connection)

    busy = reclaim(connection, room=room_of(16, last_chance_free=False))
    first = reclaim(connection)
    second = reclaim(connection)

    assert [(task.id, task.lost_count) for task in busy] == [("healthy", 1)]
    assert [(task.id, task.lost_count) for task in first] == [("suspect_0", 2)]
    assert [(task.id, task.lost_count) for task in second] == [("suspect_1", 2)]


def test_a_last_chance_waits_until_no_other_lost_task_runs_here_and_keeps_them_waiting(connect: Connect) -> None:
    task_in("running", id="last", lost_count=1, worker_id="lost")
    task_in("running", id="suspect", worker_id="lost")
    connection = connect()
    expire_leases(connection)

    beside_a_last_chance = reclaim(connection, room=replace(room_of(16), suspects_free=False))
    first = reclaim(connection)
    then = reclaim(connection)

    assert beside_a_last_chance == []
    assert [(task.id, task.lost_count) for task in first] == [("suspect", 1)]
    assert [(task.id, task.lost_count) for task in then] == [("last", 2)]


def test_a_suspect_that_ends_well_in_between_is_no_crash_loop(connect: Connect) -> None:
    task_in("running", id="a", lost_count=2, worker_id="worker-1")
    holder, other = connect(), connect()
    expire_leases(other)

    with holder.transaction():
        assert store.complete(holder, [Completion(id="a", attempt=1, result=None)])
        during = store.discard_crash_loops(other, "worker-2")

    assert (during, store.discard_crash_loops(other, "worker-2")) == ([], [])
    assert Task.objects.get(id="a").status == "success"
    assert not TaskAttempt.objects.exists()


def test_a_retried_task_starts_with_no_losses(connect: Connect) -> None:
    task_in("dead", id="a", lost_count=2)

    retry(Task.objects.all(), actor="somebody")

    (taken,) = claim(connect())
    assert (taken.lost_count, taken.retry_count, taken.last_chance) == (0, 0, False)


@pytest.mark.parametrize(
    "ending",
    [
        failed(),
        Ending(event=Event.SNOOZE, delay_seconds=1.0),
        Ending(event=Event.FAIL, error_code="timeout", timed_out=True),
        Ending(event=Event.EXHAUST, error_code="error"),
    ],
    ids=["failed", "snoozed", "timed out", "failed for good"],
)
def test_a_handler_that_ends_by_itself_is_no_suspect_any_more(connect: Connect, ending: Ending) -> None:
    task_in("due", id="a", lost_count=2)
    connection = connect()
    (claimed,) = claim(connection)

    finishes_of(finish_of(claimed, ending)).write(connection)

    assert Task.objects.get(id="a").lost_count == 0


def test_a_handler_that_was_stopped_before_its_end_stays_a_suspect(connect: Connect) -> None:
    task_in("due", id="a", lost_count=2)
    connection = connect()
    (claimed,) = claim(connection)

    finishes_of(finish_of(claimed, Ending(event=Event.RELEASE))).write(connection)

    row = Task.objects.get(id="a")
    assert (row.status, row.lost_count) == ("pending", 2)


def _worker_is_lost(connection: Connection, *, successor: str) -> tuple[list[CrashLoop], list[Claim]]:
    """Every lease runs out; another worker makes its round as ``TaskWorker`` does."""
    expire_leases(connection)
    loops = store.discard_crash_loops(connection, successor)
    return loops, reclaim(connection, serving_of(worker_id=successor))
