"""A queue with a past: finished, scheduled, foreign and paused tasks by the hundred thousand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from taskqueue.database import Connection
from tests.support.sessions import Connect, sessions

_FILL = """
SET LOCAL taskqueue.notify = off;
SET LOCAL synchronous_commit = off;
SET LOCAL statement_timeout = 0;
INSERT INTO tasks (id, task_type, status, attempt, started_at, finished_at, correlation_id)
SELECT 'finished_' || n, 'test.noop', 'success', 1, now(), now(), 'c' || n FROM generate_series(1000001, 2000000) n;
INSERT INTO tasks (id, task_type, embargo_until, priority, correlation_id)
SELECT 'scheduled_' || n, 'test.noop', now() + interval '1 d' + n * interval '1 s', n % 2 * 10, 'c' || n
FROM generate_series(1000001, 1200000) n;
INSERT INTO tasks (id, task_type, embargo_until, correlation_id)
SELECT 'foreign_' || n, 'other.program', now() - n * interval '1 ms', 'c' || n FROM generate_series(1000001, 1200000) n;
INSERT INTO tasks (id, task_type, queue, embargo_until, correlation_id)
SELECT 'paused_' || n, 'test.noop', 'paused', now() - interval '1 d' - n * interval '1 ms', 'c' || n
FROM generate_series(1000001, 1100000) n;
INSERT INTO queue_controls (kind, name, paused_by) VALUES ('queue', 'paused', 'test');
INSERT INTO tasks (id, task_type, correlation_id)
SELECT 'due_' || n, 'test.noop', 'c' || n FROM generate_series(1, 100) n;
INSERT INTO tasks (id, task_type, status, attempt, worker_id, started_at, lease_until, correlation_id)
SELECT 'running_' || n, 'test.noop', 'running', 1, 'worker-' || n % 4, now(),
    now() + CASE WHEN n % 2 = 0 THEN interval '1 h' ELSE interval '-1 s' END, 'c' || n
FROM generate_series(1, 64) n;
"""


@pytest.fixture(scope="module")
def connect(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Connect]:
    with django_db_blocker.unblock(), sessions() as connect:
        yield connect


@pytest.fixture(scope="module")
def full_queue(connect: Connect) -> Iterator[Connection]:
    """A session of the queue on a table whose statistics are the worst there are: of a queue that was worked off.

    They say that its pages hold no rows, so that every way to read it seems equally short.
    """
    connection = connect()
    with connection.transaction(force_rollback=True):
        connection.execute("INSERT INTO tasks (task_type) SELECT 'test.noop' FROM generate_series(1, 3000)")
        connection.execute(
            "INSERT INTO task_attempts (task_id, attempt, worker_id, started_at, outcome)"
            " SELECT id, 1, 'worker', now(), 'failed' FROM tasks"
        )
    connection.execute("ANALYZE tasks, task_attempts")
    with connection.transaction():
        for command in _FILL.split(";\n"):
            connection.execute(command.encode())
    yield connection
    connection.execute("TRUNCATE tasks, task_attempts, task_transitions, queue_controls")
