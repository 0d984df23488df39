"""A worker that drains knows of every claim it made, also of one that was under way when it was told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from taskqueue.database import Connection, Database
from taskqueue.handlers import Registry, register_handler
from taskqueue.models import Task
from taskqueue.records import Serving
from taskqueue.running import Running
from taskqueue.worker import TaskWorker, WorkerPlan

_SECONDS = 20.0
_BLOCKED = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'drain: tasks' AND wait_event_type = 'Lock'
"""


@pytest.fixture
def other() -> Iterator[Connection]:
    with closing(Database(name="other").open("test")) as connection:
        yield connection


@pytest.mark.django_db(transaction=True)
def test_a_claim_under_way_when_the_drain_begins_is_run_to_its_end(other: Connection) -> None:
    drained = threading.Event()
    task = Task.objects.create(task_type="drain.work")
    worker = _worker(drained)
    with other.transaction():
        # A claim reads this table, and waits here.
        other.execute("LOCK TABLE queue_controls IN ACCESS EXCLUSIVE MODE")
        worker.start()
        _wait_until_blocked()
        worker.drain()
        assert worker.settled
        assert not worker.drained

    assert drained.wait(_SECONDS)
    assert worker.drained
    worker.stop()
    assert worker.join(_SECONDS)
    task.refresh_from_db()
    assert (task.status, task.attempt) == ("success", 1)


def _worker(drained: threading.Event) -> TaskWorker:
    handlers = Registry()
    register_handler("drain.work", lambda payload: None, into=handlers)
    serving = Serving(task_types=("drain.work",), queues=None, worker_id="draining", lease_seconds=60.0)
    return TaskWorker(
        WorkerPlan(
            serving=serving,
            poll_seconds=1.0,
            default_max_retries=0,
            outage_seconds=60.0,
            max_tasks=0,
            on_end=lambda reason: None,
        ),
        database=Database(name="drain"),
        registry=handlers,
        running=Running(1),
        on_failure=lambda part, error: pytest.fail(f"{part}: {error}"),
        on_drained=drained.set,
    )


def _wait_until_blocked() -> None:
    with closing(Database(name="watcher").open("test")) as watcher:
        pause = threading.Event()
        for _ in range(int(_SECONDS / 0.02)):
            if _count(watcher):
                return
            pause.wait(0.02)
    raise AssertionError("the claim did not begin")


def _count(watcher: psycopg.Connection[tuple[object, ...]]) -> object:
    row = watcher.execute(_BLOCKED).fetchone()
    assert row is not None
    return row[0]
