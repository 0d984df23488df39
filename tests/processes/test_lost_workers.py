"""Workers that are killed, held still or merely slow: their tasks go on elsewhere exactly when they must."""

from __future__ import annotations

import signal
import time

from tests.support.own_server import QueueDatabase
from tests.support.worker_process import LOOK_SECONDS, StartWorker

LEASE_SECONDS = 3.0
POLL_SECONDS = 0.5


def test_tasks_of_a_killed_worker_go_on_within_lease_and_poll(
    database: QueueDatabase, start_worker: StartWorker
) -> None:
    first = start_worker("--task-concurrency", "3").started()
    running = [database.insert("test.sleep_first", {"seconds": 600}) for _ in range(3)]
    for id in running:
        database.wait_for_status(id, "running")
    second = start_worker("--poll-interval", str(POLL_SECONDS)).started()
    database.wait_until_listening(2)
    (row,) = database.execute("SELECT DISTINCT worker_id FROM tasks")
    lost_worker = row["worker_id"]
    killed_at = time.monotonic()
    first.kill()

    database.wait_until_done(seconds=LEASE_SECONDS + POLL_SECONDS + 1.0)

    assert time.monotonic() - killed_at > 1.0, "a lease was not respected"
    second.wait_for("taskqueue.task.reclaimed", count=3, lost_worker_id=lost_worker)
    for id in running:
        task = database.task(id)
        assert (task["status"], task["attempt"], task["lost_count"], task["retry_count"]) == ("success", 2, 1, 0)
        (attempt,) = database.attempts(id)
        assert (attempt["attempt"], attempt["outcome"], attempt["worker_id"]) == (1, "lost", lost_worker)


def test_a_worker_that_wakes_up_after_its_lease_changes_nothing(
    database: QueueDatabase, start_worker: StartWorker
) -> None:
    stopped = start_worker("--poll-interval", "300").started()
    id = database.insert("test.sleep_first", {"seconds": 1.0})
    database.wait_for_status(id, "running")
    stopped.send(signal.SIGSTOP)
    other = start_worker("--poll-interval", str(POLL_SECONDS)).started()
    done = database.wait_for_status(id, "success")
    other.wait_for("worker.run", task_id=id, attempt=2)

    stopped.send(signal.SIGCONT)

    lost = stopped.wait_for("taskqueue.claim.lost", task_id=id, attempt=1)
    assert lost["move"] in ("renew", "complete")
    # It goes on to serve: the lost claim is an outcome, not its end.
    other.stop()
    database.wait_for_status(database.insert("test.noop"), "success")
    assert stopped.stop() == 0
    assert len(stopped.lines("taskqueue.claim.lost")) == 1
    assert stopped.lines("worker.run", task_id=id) == []
    assert database.task(id) == done
    assert done["result"] == {"attempt": 2}
    assert [attempt["outcome"] for attempt in database.attempts(id)] == ["lost"]


def test_a_worker_stopped_with_nobody_else_there_keeps_its_claim(
    database: QueueDatabase, start_worker: StartWorker
) -> None:
    worker = start_worker("--poll-interval", str(POLL_SECONDS)).started()
    id = database.insert("test.sleep_first", {"seconds": 1.0})
    database.wait_for_status(id, "running")
    worker.send(signal.SIGSTOP)
    database.wait_for(
        "SELECT 1 AS expired FROM tasks WHERE status = 'running' AND lease_until < now() - interval '1 s'"
    )

    worker.send(signal.SIGCONT)

    task = database.wait_for_status(id, "success")
    assert (task["attempt"], task["lost_count"]) == (1, 0)
    assert worker.lines("taskqueue.claim.lost") == []


def test_a_task_that_kills_its_workers_is_set_aside_and_the_others_are_not_charged(
    database: QueueDatabase, start_worker: StartWorker
) -> None:
    # Older ones run beside it and are tried before it; younger ones run beside it, too, or wait behind.
    database.insert_many(7, "test.sleep", {"seconds": 0.3})
    killer = database.insert("test.kill_worker")
    database.insert_many(93, "test.noop")
    deaths = 0
    deadline = time.monotonic() + 90
    while database.count("pending") + database.count("running"):
        assert time.monotonic() < deadline, database.picture()
        worker = start_worker("--poll-interval", str(POLL_SECONDS))
        while worker.process.poll() is None and database.count("pending") + database.count("running"):
            time.sleep(LOOK_SECONDS)
        if worker.process.poll() == -signal.SIGKILL:
            deaths += 1
            database.execute("UPDATE tasks SET lease_until = now() - interval '1 s' WHERE status = 'running'")

    assert deaths == 3
    task = database.task(killer)
    assert (task["status"], task["error_code"]) == ("dead_lettered", "crash_loop")
    assert (task["lost_count"], task["attempt"]) == (3, 3)
    assert "its worker was lost 3 times" in task["message"]
    assert [attempt["outcome"] for attempt in database.attempts(killer)] == ["lost"] * 3
    assert database.count("success") == 100
    charged = database.execute(
        "SELECT id, lost_count, retry_count FROM tasks WHERE id <> %s AND (lost_count > 0 OR retry_count > 0)", [killer]
    )
    assert charged == []


def test_handlers_far_longer_than_the_lease_run_once(database: QueueDatabase, start_worker: StartWorker) -> None:
    options = ("--poll-interval", str(POLL_SECONDS), "--task-concurrency", "3")
    workers = [start_worker(*options).started(), start_worker(*options).started()]
    # One that waits, one that computes and rarely lets other threads run, one that blocks the event loop it is in.
    tasks = [
        database.insert(task_type, {"seconds": 3 * LEASE_SECONDS})
        for task_type in ("test.sleep", "test.spin", "test.block_async")
    ]

    for id in tasks:
        task = database.wait_for_status(id, "success")
        assert (task["attempt"], task["lost_count"]) == (1, 0)
        assert database.attempts(id) == []
    for worker in workers:
        assert worker.lines("taskqueue.claim.lost") == []
        assert worker.lines("taskqueue.task.reclaimed") == []
