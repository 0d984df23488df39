"""Enqueueing belongs to the caller's transaction, and one that stays open slows nobody down for long."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.support.claim_times import first_and_last
from tests.support.own_server import QueueDatabase
from tests.support.worker_process import DEADLINE_SECONDS, REPOSITORY, StartWorker, environment

# Saves a row and enqueues a task for it in one transaction, then waits in it for a word of the test.
PROGRAM = """
import sys
import django
django.setup()
from django.db import connection, transaction
from taskqueue.enqueueing import enqueue
from taskqueue.models import Event, Task

statement = "SELECT data FROM events WHERE type = 'saved'"
WAYS = {
    "enqueue": lambda: enqueue("test.sql", {"statements": [statement]}),
    "create": lambda: Task.objects.create(task_type="test.sql", payload={"statements": [statement]}),
    "insert": lambda: connection.cursor().execute(
        "INSERT INTO tasks (task_type, payload) VALUES ('test.sql', jsonb_build_object('statements', ARRAY[%s]))",
        [statement],
    ),
}
with transaction.atomic():
    Event.objects.create(type="saved", data={"number": 1})
    WAYS[sys.argv[1]]()
    print("enqueued", flush=True)
    if sys.stdin.readline() == "raise\\n":
        raise RuntimeError("on purpose")
print("committed", flush=True)
"""

type Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start_enqueuer(database: QueueDatabase) -> Iterator[Start]:
    processes: list[subprocess.Popen[str]] = []

    def start(way: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, way],
            cwd=REPOSITORY,
            env=environment(database.url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], DEADLINE_SECONDS)[0]
        assert process.stdout.readline() == "enqueued\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def tell(process: subprocess.Popen[str], word: str) -> int:
    process.communicate(f"{word}\n", timeout=DEADLINE_SECONDS)
    return process.returncode


def test_what_was_rolled_back_was_never_queued(
    database: QueueDatabase, start_worker: StartWorker, start_enqueuer: Start
) -> None:
    start_worker("--poll-interval", "0.1").started()
    raising, killed = start_enqueuer("enqueue"), start_enqueuer("enqueue")

    assert tell(raising, "raise") == 1
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait(DEADLINE_SECONDS)

    # Once the server has noticed, nothing of either transaction is there, and a task enqueued now is the only one.
    database.wait_for(
        "SELECT 1 AS gone WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'idle in transaction')"
    )
    database.wait_for_status(database.insert("test.noop"), "success")
    counts = database.execute("SELECT (SELECT count(*) FROM events) AS events, (SELECT count(*) FROM tasks) AS tasks")
    assert counts == [{"events": 0, "tasks": 1}]


def test_a_handler_starts_after_the_commit_and_finds_the_row(
    database: QueueDatabase, start_worker: StartWorker, start_enqueuer: Start
) -> None:
    worker = start_worker("--poll-interval", "0.1").started()
    database.wait_until_listening()
    enqueuers = [start_enqueuer(way) for way in ("enqueue", "create", "insert")]
    # A task of another transaction, enqueued later, is done meanwhile: the worker is neither asleep nor stuck.
    database.wait_for_status(database.insert("test.noop"), "success")
    assert database.execute("SELECT * FROM tasks WHERE task_type = 'test.sql'") == []

    for number, enqueuer in enumerate(enqueuers, start=1):
        assert tell(enqueuer, "commit") == 0
        database.wait_for(
            "SELECT 1 AS done FROM tasks WHERE task_type = 'test.sql' AND status = 'success' HAVING count(*) = %s",
            [number],
        )

    results = database.execute("SELECT result, attempt FROM tasks WHERE task_type = 'test.sql' ORDER BY finished_at")
    assert [(len(row["result"]), row["attempt"]) for row in results] == [(1, 1), (2, 1), (3, 1)]
    assert worker.lines("worker.retry") == []


def test_an_old_transaction_does_not_make_claims_slow(database: QueueDatabase, start_worker: StartWorker) -> None:
    total, sample = 20_000, 1000
    database.insert_many(total, "test.noop")
    with database.connection(autocommit=False) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1")
        start_worker(XNGIN_LOG_LEVEL="WARNING")
        database.wait_until_done(seconds=120)
    first, last = first_and_last(database, sample=sample)
    assert last < 5 * first + 0.5
