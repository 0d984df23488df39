"""Several workers claim: each task goes to one of them, the best first, and nothing that must wait goes to any."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from taskqueue.lifecycle import Status
from taskqueue.models import QueueControl, Task
from tests.support.sessions import Connect, claim, room_of, serving_of
from tests.support.tasks_in_state import task_in

_NOW = datetime.now(UTC)


def test_a_claim_passes_over_what_another_is_claiming_and_takes_the_next(connect: Connect) -> None:
    first, second = (task_in("due", id=id).id for id in ("a", "b"))
    one, other = connect(), connect()

    with one.transaction():
        mine = claim(one, serving_of(worker_id="worker-a"), room_of(1))
        theirs = claim(other, serving_of(worker_id="worker-b"), room_of(1))
        nothing = claim(other, serving_of(worker_id="worker-b"), room_of(1))

    assert ([task.id for task in mine], [task.id for task in theirs], nothing) == ([first], [second], [])
    rows = Task.objects.order_by("id").values_list("id", "status", "attempt", "worker_id")
    assert list(rows) == [("a", "running", 1, "worker-a"), ("b", "running", 1, "worker-b")]


def test_a_claim_that_is_rolled_back_leaves_the_task_to_others(connect: Connect) -> None:
    task = task_in("due")
    one, other = connect(), connect()

    with one.transaction(force_rollback=True):
        assert claim(one)
    taken = claim(other, serving_of(worker_id="worker-b"))

    assert [(claimed.id, claimed.attempt) for claimed in taken] == [(task.id, 1)]


def test_many_workers_at_once_never_share_a_task(connect: Connect) -> None:
    Task.objects.bulk_create(Task(id=f"task_{n:04}", task_type="test.noop") for n in range(600))
    workers = [connect() for _ in range(6)]

    def take_all(number: int) -> list[str]:
        taken: list[str] = []
        while claimed := claim(workers[number], serving_of(worker_id=f"worker-{number}"), room_of(7)):
            taken += [task.id for task in claimed]
        return taken

    with ThreadPoolExecutor(6) as pool:
        shares = list(pool.map(take_all, range(6)))

    taken = [id for share in shares for id in share]
    assert len(taken) == len(set(taken))
    # A worker may find all it looks at locked and stop early; what is left is still there for the next.
    left = Task.objects.filter(status=Status.PENDING).count()
    assert len(taken) + left == 600
    assert not Task.objects.filter(status=Status.RUNNING).exclude(attempt=1).exists()


def test_priority_comes_first_and_then_the_time_it_was_due_over_all_types_and_queues(connect: Connect) -> None:
    def due(id: str, *, ago: int, priority: int = 0, task_type: str = "test.noop", queue: str = "default") -> None:
        embargo = _NOW - timedelta(seconds=ago)
        task_in("due", id=id, embargo_until=embargo, priority=priority, task_type=task_type, queue=queue)

    due("last", ago=900, priority=-1)
    due("newer", ago=10)
    due("older, other type", ago=50, task_type="test.echo")
    due("older still, other queue", ago=70, queue="slow")
    due("urgent", ago=5, priority=9, task_type="test.echo", queue="slow")
    due("urgent, older", ago=6, priority=9)
    due("most urgent", ago=1, priority=32_767)
    connection = connect()
    serving = serving_of("test.noop", "test.echo")

    with connection.transaction(force_rollback=True):
        together = [claimed.id for claimed in claim(connection, serving, room_of(8))]
    order = [claimed.id for _ in range(8) for claimed in claim(connection, serving, room_of(1))]

    assert order == [
        "most urgent",
        "urgent, older",
        "urgent",
        "older still, other queue",
        "older, other type",
        "newer",
        "last",
    ]
    assert together == order


@pytest.mark.parametrize(
    "values",
    [
        {"embargo_until": _NOW + timedelta(hours=1)},
        {"task_type": "other.program"},
        {"queue": "paused"},
        {"task_type": "test.paused"},
        {"queue": "elsewhere"},
    ],
    ids=["scheduled", "type not served", "queue paused", "type paused", "queue not served"],
)
def test_what_must_wait_is_not_claimed_and_keeps_nobody_waiting(connect: Connect, values: dict[str, object]) -> None:
    QueueControl.objects.create(kind="queue", name="paused", paused_by="somebody")
    QueueControl.objects.create(kind="task_type", name="test.paused", paused_by="somebody")
    for n in range(50):
        task_in("due", id=f"waits_{n}", **{"priority": 5, "embargo_until": _NOW - timedelta(days=1), **values})
    task_in("due", id="free")
    serving = serving_of("test.noop", "test.paused", queues=("default", "paused"))

    claimed = claim(connect(), serving, room_of(16))

    assert [task.id for task in claimed] == ["free"]
    assert Task.objects.filter(status=Status.PENDING, attempt=0).count() == 50


def test_a_queue_goes_on_when_its_pause_ends(connect: Connect) -> None:
    connection = connect()
    control = QueueControl.objects.create(kind="queue", name="default", paused_by="somebody")
    task_in("due", id="a")
    assert claim(connection) == []

    control.delete()

    assert [task.id for task in claim(connection)] == ["a"]


def test_a_claim_brings_the_whole_task(connect: Connect) -> None:
    task = task_in(
        "retrying",
        payload={"n": [1, "ä"]},
        queue="q",
        priority=3,
        max_retries=4,
        lost_count=1,
        embargo_until=datetime.now(UTC),
    )

    (claimed,) = claim(connect())

    assert (claimed.id, claimed.task_type, claimed.payload) == (task.id, "test.noop", '{"n": [1, "ä"]}')
    assert (claimed.queue, claimed.priority, claimed.retry_count, claimed.max_retries) == ("q", 3, 2, 4)
    assert (claimed.attempt, claimed.lost_count, claimed.correlation_id) == (3, 1, task.correlation_id)
    assert 0 <= claimed.waited_seconds < 60
    assert claimed.lost_worker_id is None
