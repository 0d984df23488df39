"""When the claim loop looks again: after a notification, a slot that became free, a last chance that ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, override

import pytest

from taskqueue.database import Connection, Database
from taskqueue.handlers import Registry, register_handler
from taskqueue.models import Task
from taskqueue.records import Serving
from taskqueue.running import Running
from taskqueue.worker import TaskWorker, WorkerPlan
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db(transaction=True)

_SECONDS = 20.0
type MakeWorker = Callable[..., TaskWorker]


@pytest.fixture
def make_worker() -> Iterator[MakeWorker]:
    """A worker whose loop is not started: each ``look`` is the test's own."""
    made: list[TaskWorker] = []

    def make(*, poll_seconds: float = 300.0, handler: Callable[[Any], Any] = lambda payload: None) -> TaskWorker:
        handlers = Registry()
        register_handler("test.noop", handler, into=handlers)
        plan = WorkerPlan(
            serving=Serving(task_types=("test.noop",), queues=None, worker_id="looping", lease_seconds=300.0),
            poll_seconds=poll_seconds,
            default_max_retries=0,
            outage_seconds=60.0,
            max_tasks=0,
            on_end=lambda reason: None,
        )
        worker = TaskWorker(
            plan,
            database=Database(name="looping"),
            registry=handlers,
            running=Running(4),
            on_failure=lambda part, error: pytest.fail(f"{part}: {error}"),
            on_drained=lambda: None,
        )
        made.append(worker)
        return worker

    yield make
    for worker in made:
        worker.stop()
        assert worker.join(_SECONDS)
        worker.close()


@pytest.fixture
def other() -> Iterator[Connection]:
    with closing(Database(name="other").open("test")) as connection:
        yield connection


class _Interrupted(float):
    """An instant at whose comparison something else happens, as when another thread runs at that very moment."""

    hook: Callable[[], None]

    def __gt__(self, other: float) -> bool:
        self.hook()
        return float(self) > other


class _PollTime(float):
    """Added to an instant it gives one that is interrupted at its next comparison."""

    hook: Callable[[], None]

    @override
    def __radd__(self, other: float) -> float:
        instant = _Interrupted(other + float(self))
        instant.hook = self.hook
        return instant


def test_a_notification_in_the_middle_of_planning_the_next_look_is_not_lost(make_worker: MakeWorker) -> None:
    poll = _PollTime(300.0)
    worker = make_worker(poll_seconds=poll)
    came: list[Task] = []

    def insert_and_notify() -> None:
        if not came:
            came.append(task_in("due"))
            worker.work_may_be_due()

    poll.hook = insert_and_notify
    task_in("scheduled")

    worker.look()
    assert came
    worker.look()

    assert Task.objects.get(id=came[0].id).attempt == 1


def test_tasks_at_their_last_chance_follow_each_other_without_waiting_for_a_poll(make_worker: MakeWorker) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    for _ in range(3):
        task_in("running", worker_id="gone", lost_count=1, lease_until=long_ago)
    worker = make_worker()
    worker.start()

    _wait(lambda: Task.objects.filter(status="success").count() == 3)


def test_a_claim_that_broke_off_is_given_back_although_the_worker_drains(
    make_worker: MakeWorker, other: Connection
) -> None:
    worker = make_worker()
    worker.look()
    other.execute(
        "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE application_name = 'looping: tasks'"
    )
    orphan = task_in("running", worker_id="looping")
    worker.work_may_be_due()
    worker.look()
    assert Task.objects.get(id=orphan.id).status == "running"
    worker.drain()

    worker.look()

    assert Task.objects.get(id=orphan.id).status == "pending"


def _wait(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(_SECONDS / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError("it did not happen in time")
