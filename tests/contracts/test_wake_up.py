"""What other programs insert wakes workers: once a statement, only for work that is due, at a constant cost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import LiteralString

import pytest
from django.db import connection as django_connection

from taskqueue.database import Connection
from taskqueue.models import Task
from taskqueue.operations import NewTask, enqueue_many
from taskqueue.triggers import CHANNEL
from tests.support.sessions import sessions

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def session() -> Iterator[Connection]:
    with sessions() as connect:
        connection = connect()
        connection.execute(f"LISTEN {CHANNEL}")
        yield connection


@pytest.mark.parametrize(
    ("insert", "notifications"),
    [
        ("INSERT INTO tasks (task_type) VALUES ('test.noop')", 1),
        ("INSERT INTO tasks (task_type) SELECT 'test.noop' FROM generate_series(1, 100)", 1),
        ("INSERT INTO tasks (task_type, embargo_until) VALUES ('test.noop', now() + interval '1 h')", 0),
        (
            "INSERT INTO tasks (task_type, embargo_until)"
            " SELECT 'test.noop', now() + n * interval '1 h' FROM generate_series(0, 9) n",
            1,
        ),
        ("INSERT INTO tasks (task_type, status, finished_at) VALUES ('test.noop', 'success', now())", 0),
        ("INSERT INTO tasks (task_type) SELECT 'test.noop' WHERE false", 0),
    ],
)
def test_a_plain_insert_notifies_once_when_a_row_is_due(
    session: Connection, insert: LiteralString, notifications: int
) -> None:
    session.execute(insert)

    assert _heard(session) == [""] * notifications


def test_ten_thousand_rows_of_bulk_create_are_one_notification(session: Connection) -> None:
    Task.objects.bulk_create(Task(task_type="test.noop", payload={"n": n}) for n in range(10_000))

    assert _heard(session) == [""]
    assert Task.objects.count() == 10_000


def test_enqueue_many_is_one_notification(session: Connection) -> None:
    enqueue_many(NewTask(task_type="test.noop", dedupe_key=f"key-{n}" if n % 2 else None) for n in range(100))

    assert _heard(session) == [""]


def test_scheduled_tasks_of_enqueue_many_do_not_notify(session: Connection) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    enqueue_many([NewTask(task_type="test.noop", run_at=tomorrow), NewTask(task_type="test.noop", delay=3600)])

    assert _heard(session) == []


def test_an_insert_that_is_rolled_back_never_notifies(session: Connection) -> None:
    with session.transaction(force_rollback=True):
        session.execute("INSERT INTO tasks (task_type) VALUES ('test.noop')")

    assert _heard(session) == []


@pytest.mark.parametrize("value", ["off", "on"])
def test_a_session_may_switch_wake_ups_off(session: Connection, value: str) -> None:
    session.execute("SELECT set_config('taskqueue.notify', %s, false)", [value])

    session.execute("INSERT INTO tasks (task_type) VALUES ('test.noop')")
    session.execute("UPDATE tasks SET embargo_until = now() + interval '1 h'")
    session.execute("UPDATE tasks SET embargo_until = now()")

    assert _heard(session) == ([""] * 2 if value == "on" else [])


def test_a_payload_of_a_megabyte_is_stored_and_wakes(session: Connection) -> None:
    session.execute(
        "INSERT INTO tasks (id, task_type, payload)"
        " VALUES ('task_big', 'test.noop', jsonb_build_object('text', repeat('ä', 1000000)))"
    )

    assert _heard(session) == [""]
    assert Task.objects.get(id="task_big").payload == {"text": "ä" * 1_000_000}


def test_the_documented_insert_enqueues_a_whole_task() -> None:
    with django_connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tasks (id, task_type, payload) VALUES ('task_RANDOM', 'webhook.outbound',"
            """ '{"url": "https://example.com", "method": "POST"}')"""
        )

    task = Task.objects.get(id="task_RANDOM")
    assert (task.status, task.queue, task.priority, task.attempt) == ("pending", "default", 0, 0)
    assert (task.retry_count, task.lost_count, task.max_retries, task.message) == (0, 0, None, None)
    assert task.embargo_until == task.created_at == task.updated_at
    assert len(task.correlation_id) == 36


def _heard(session: Connection) -> list[str]:
    """Payloads of the notifications that came so far, in order."""
    # One's own notifications arrive in the order of their commits; the mark bounds the wait.
    session.execute("SELECT pg_notify(%s, 'mark')", [CHANNEL])
    heard: list[str] = []
    for notification in session.notifies(timeout=20):
        if notification.payload == "mark":
            return heard
        heard.append(notification.payload)
    raise AssertionError("the mark did not come back")
