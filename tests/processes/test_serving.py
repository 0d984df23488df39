"""A worker in everyday service: it wakes at once, says how it is, and no handler can harm it."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys

import pytest

from tests.support.own_server import QueueDatabase
from tests.support.worker_process import REPOSITORY, StartWorker, environment

INSERT = """
import psycopg, sys
with psycopg.connect(sys.argv[1]) as connection:
    row = connection.execute(
        "INSERT INTO tasks (id, task_type, payload) VALUES ('task_' || md5(random()::text), 'test.noop', '{}')"
        " RETURNING id"
    ).fetchone()
print(row[0])
"""


def insert_from_another_process(database: QueueDatabase) -> str:
    program = subprocess.run(
        [sys.executable, "-c", INSERT, database.url],
        cwd=REPOSITORY,
        env=environment(database.url),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=30,
    )
    return program.stdout.strip()


def test_an_idle_worker_starts_what_another_process_inserts_within_half_a_second(
    database: QueueDatabase, start_worker: StartWorker
) -> None:
    worker = start_worker("--poll-interval", "300", "--lease", "600").started()
    database.wait_until_listening()
    for _ in range(5):
        task = database.wait_for_status(insert_from_another_process(database), "success")
        assert (task["started_at"] - task["created_at"]).total_seconds() < 0.5
    # Once it has seen a scheduled task, that one's instant is a timer: it does not wait for the next poll.
    (row,) = database.execute(
        "INSERT INTO tasks (task_type, embargo_until) VALUES ('test.noop', now() + interval '1 s') RETURNING id"
    )
    database.insert("test.noop")
    task = database.wait_for_status(row["id"], "success")
    assert 0 <= (task["started_at"] - task["embargo_until"]).total_seconds() < 0.5
    assert worker.stop() == 0


def answer(port: int, path: str) -> tuple[int, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_health_says_alive_and_ready_until_it_drains(
    database: QueueDatabase, start_worker: StartWorker, unused_port: int
) -> None:
    worker = start_worker("--health-port", str(unused_port)).started()
    running = database.insert("test.sleep", {"seconds": 600})
    database.wait_for_status(running, "running")
    assert answer(unused_port, "/live") == (200, {"live": True})
    assert answer(unused_port, "/ready") == (200, {"ready": True})
    assert answer(unused_port, "/elsewhere")[0] == 404

    worker.send(signal.SIGTERM)
    worker.wait_for("taskqueue.worker.draining")

    assert answer(unused_port, "/live") == (200, {"live": True})
    assert answer(unused_port, "/ready") == (503, {"ready": False})
    assert worker.stop() == 3


def test_no_exception_of_a_handler_ends_the_worker(database: QueueDatabase, start_worker: StartWorker) -> None:
    worker = start_worker("--task-concurrency", "2").started()
    tasks = [
        database.insert(task_type, {}, max_retries=1)
        for task_type in ("test.exit", "test.exit_async", "test.interrupt", "test.unserialisable", "test.fail")
    ]
    codes = []
    for id in tasks:
        task = database.wait_for_status(id, "dead")
        assert (task["attempt"], task["retry_count"]) == (2, 1)
        assert [attempt["outcome"] for attempt in database.attempts(id)] == ["failed", "failed"]
        codes.append(task["error_code"])
    assert codes == ["error", "error", "error", "unserialisable_result", "error"]
    # Both slots still work.
    database.insert_many(10, "test.sleep", {"seconds": 0.05})
    database.wait_until_done()
    assert worker.stop() == 0


def test_handlers_find_a_clean_connection_and_keep_it_from_task_to_task(
    database: QueueDatabase, start_worker: StartWorker
) -> None:
    worker = start_worker("--task-concurrency", "1").started()
    look = {"statements": ["SELECT current_setting('search_path'), to_regclass('public.left_open'), pg_backend_pid()"]}

    def seen() -> list[object]:
        (row,) = database.wait_for_status(database.insert("test.sql", look), "success")["result"]
        return list(row)

    usual, nothing, session = seen()
    assert nothing is None
    assert seen() == [usual, None, session]
    changed = {"statements": ["SET search_path = elsewhere", "SET work_mem = '1MB'"]}
    database.wait_for_status(database.insert("test.sql", changed), "success")
    assert seen() == [usual, None, session]
    for payload, status in (({}, "success"), ({"error": "in the middle"}, "dead")):
        database.wait_for_status(database.insert("test.leave_open", payload, max_retries=0), status)
        assert seen()[:2] == [usual, None]
    # A session that the server ended is replaced before the next handler, which notices nothing.
    database.execute("SELECT pg_terminate_backend(%s)", [seen()[2]])
    assert seen()[:2] == [usual, None]
    assert worker.lines("taskqueue.database.lost") == []
    assert worker.stop() == 0


@pytest.mark.parametrize(
    ("task_type", "stuck"), [("test.hang", True), ("test.polite", False), ("test.slow_async", False)]
)
def test_a_handler_out_of_time_is_tried_again(
    task_type: str, stuck: bool, database: QueueDatabase, start_worker: StartWorker
) -> None:
    worker = start_worker("--task-concurrency", "4").started()
    id = database.insert(task_type, {"seconds": 600}, max_retries=1)

    task = database.wait_for_status(id, "dead")

    assert (task["attempt"], task["error_code"], task["lost_count"]) == (2, "timeout", 0)
    assert [attempt["outcome"] for attempt in database.attempts(id)] == ["timeout", "timeout"]
    assert len(worker.lines("taskqueue.handler.stuck")) == (2 if stuck else 0)
    # A slot is free again once its handler has ended.
    database.wait_for("SELECT 1 AS told FROM workers WHERE stuck = %s", [2 if stuck else 0])
    assert worker.stop() == 0


def test_a_worker_that_ends_has_written_what_it_counted(database: QueueDatabase, start_worker: StartWorker) -> None:
    for _ in range(3):
        database.insert("test.noop")
    assert start_worker("--exit-when-idle").ended() == 0
    rows = database.execute(
        "SELECT sum(succeeded)::int AS n FROM queue_minutes WHERE span = 15 AND task_type = 'test.noop'"
    )
    assert rows == [{"n": 3}]
