"""The trigger on updates: it tells of tasks that became due, of nothing else, and never holds up a bulk update."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import LiteralString

import pytest

from taskqueue.database import Connection, Database
from taskqueue.triggers import CHANNEL

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def connection() -> Iterator[Connection]:
    with closing(Database(name="triggers").open("test")) as connection:
        yield connection


@pytest.mark.parametrize(
    ("update", "notified"),
    [
        ("UPDATE tasks SET embargo_until = now() WHERE id = 'scheduled'", True),
        ("UPDATE tasks SET status = 'pending', finished_at = NULL WHERE id = 'dead'", True),
        ("UPDATE tasks SET embargo_until = now() WHERE status = 'pending'", True),
        ("UPDATE tasks SET embargo_until = now() + interval '1 h' WHERE id = 'due'", False),
        ("UPDATE tasks SET embargo_until = now() + interval '2 h' WHERE id = 'scheduled'", False),
        ("UPDATE tasks SET priority = 5, queue = 'other' WHERE status = 'pending'", False),
        ("UPDATE tasks SET message = 'looked at' WHERE id = 'dead'", False),
    ],
)
def test_an_update_notifies_only_when_a_task_became_due(
    connection: Connection, update: LiteralString, notified: bool
) -> None:
    connection.execute(
        "INSERT INTO tasks (id, task_type, status, embargo_until, finished_at) VALUES"
        " ('due', 'test', 'pending', now(), NULL),"
        " ('scheduled', 'test', 'pending', now() + interval '1 h', NULL),"
        " ('dead', 'test', 'dead', now(), now())"
    )
    connection.execute(f"LISTEN {CHANNEL}")

    connection.execute(update)

    # A notification to oneself is here when its own statement has been answered; the mark bounds the wait.
    connection.execute("SELECT pg_notify(%s, 'mark')", [CHANNEL])
    heard = []
    for notification in connection.notifies(timeout=20):
        heard.append(notification.payload)
        if notification.payload == "mark":
            break
    assert heard == (["", "mark"] if notified else ["mark"])


def test_an_update_of_many_pending_tasks_takes_time_in_proportion(connection: Connection) -> None:
    connection.execute("INSERT INTO tasks (task_type) SELECT 'test' FROM generate_series(1, 20000)")
    # A session's first update decides the plan that the trigger keeps.
    connection.execute("UPDATE tasks SET queue = 'first' WHERE id = (SELECT min(id) FROM tasks)")
    connection.execute("SET statement_timeout = '20s'")

    assert connection.execute("UPDATE tasks SET queue = 'other'").rowcount == 20_000
