"""The exit code tells a supervisor why the worker ended: 0 as told, 1 failed, 2 wrong configuration, 3 cut short."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.own_server import OwnServer, QueueDatabase
from tests.support.worker_process import REPOSITORY, StartWorker

type MakeApp = Callable[..., dict[str, str]]


@pytest.fixture
def make_app(tmp_path: Path) -> MakeApp:
    """Apps with the given text as their task_handlers, and the variables that install them."""

    def make(**handlers: str) -> dict[str, str]:
        for app, text in handlers.items():
            (tmp_path / app).mkdir()
            (tmp_path / app / "__init__.py").touch()
            (tmp_path / app / "task_handlers.py").write_text(text)
        (tmp_path / "settings_of_test.py").write_text(
            f"from xngin_worker.settings import *\n\nINSTALLED_APPS = [*INSTALLED_APPS, *{list(handlers)}]\n"
        )
        return {
            "PYTHONPATH": os.pathsep.join([os.fspath(REPOSITORY), os.fspath(tmp_path)]),
            "DJANGO_SETTINGS_MODULE": "settings_of_test",
        }

    return make


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_what_runs_and_ends_with_0(
    number: signal.Signals, database: QueueDatabase, start_worker: StartWorker, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    running = database.insert("test.sleep", {"seconds": 1.0, "started": str(begun)})
    worker = start_worker("--task-concurrency", "1")
    database.wait_for_status(running, "running")
    waiting = database.insert("test.noop")

    assert worker.stop(number) == 0

    assert worker.wait_for("taskqueue.worker.draining", running=1)["reason"] == f"signal {number.value}"
    assert worker.wait_for("taskqueue.worker.stopped", exit_code=0)["released"] == 0
    assert database.task(running)["status"] == "success"
    assert database.task(waiting)["attempt"] == 0


def test_nothing_of_a_worker_that_ended_stays_in_the_database(
    database: QueueDatabase, start_worker: StartWorker
) -> None:
    database.insert_many(20, "test.noop")
    worker = start_worker().started()
    database.wait_until_done()

    assert worker.stop() == 0

    assert database.sessions() == []
    (row,) = database.execute("SELECT stopped_at, listen_state, running FROM workers")
    assert (row["stopped_at"] is not None, row["listen_state"], row["running"]) == (True, "off", 0)


def test_exit_when_idle_ends_with_0_once_nothing_is_due(database: QueueDatabase, start_worker: StartWorker) -> None:
    database.insert_many(30, "test.noop")
    (scheduled,) = database.execute(
        "INSERT INTO tasks (task_type, embargo_until) VALUES ('test.noop', now() + interval '1 hour') RETURNING id"
    )

    assert start_worker("--exit-when-idle", "--task-concurrency", "4").ended() == 0

    assert database.count("success") == 30
    assert database.task(scheduled["id"])["status"] == "pending"


def test_max_tasks_takes_exactly_that_many(database: QueueDatabase, start_worker: StartWorker) -> None:
    database.insert_many(40, "test.noop")

    assert start_worker("--max-tasks", "25", "--task-concurrency", "4").ended() == 0

    assert (database.count("success"), database.count("pending")) == (25, 15)


def test_max_tasks_counts_tasks_taken_over_from_a_lost_worker(
    database: QueueDatabase, start_worker: StartWorker
) -> None:
    database.execute(
        "INSERT INTO tasks (task_type, status, attempt, worker_id, started_at, lease_until)"
        " SELECT 'test.noop', 'running', 1, 'gone', now(), now() - interval '1 s' FROM generate_series(1, 8)"
    )

    assert start_worker("--max-tasks", "3", "--task-concurrency", "8").ended() == 0

    assert (database.count("success"), database.count("running")) == (3, 5)


def test_a_database_away_for_too_long_ends_with_1(
    server: OwnServer, database: QueueDatabase, start_worker: StartWorker
) -> None:
    worker = start_worker("--db-outage", "1").started()
    database.wait_until_listening()
    server.stop()
    try:
        assert worker.ended() == 1
    finally:
        server.start()
    assert "no usable database" in str(worker.wait_for("taskqueue.service.failed")["reason"])


def test_handlers_stuck_in_every_slot_end_with_1(database: QueueDatabase, start_worker: StartWorker) -> None:
    stuck = [database.insert("test.hang", {"seconds": 600}) for _ in range(2)]

    worker = start_worker("--task-concurrency", "2", "--poll-interval", "300")

    assert worker.ended() == 1
    assert worker.wait_for("taskqueue.handler.stuck", stuck=2)["slots"] == 2
    for id in stuck:
        (attempt,) = database.attempts(id)
        assert (attempt["outcome"], attempt["error_code"]) == ("timeout", "timeout")
        assert database.task(id)["status"] == "pending"


def test_wrong_options_and_variables_end_with_2_and_are_all_listed(start_worker: StartWorker) -> None:
    worker = start_worker(
        "--leese", "3", "--task-concurrency", "none", XNGIN_WORKER_POLL_INTERVAL="soon", XNGIN_PORTT="1"
    )

    assert worker.ended() == 2

    said = worker.said()
    for fault in (
        "--leese",
        "(did you mean --lease?)",
        "--task-concurrency",
        "XNGIN_WORKER_POLL_INTERVAL",
        "XNGIN_PORTT",
    ):
        assert fault in said
    assert "Traceback" not in said


def test_two_handlers_of_one_type_end_with_2_and_are_both_named(start_worker: StartWorker, make_app: MakeApp) -> None:
    handlers = "from taskqueue.handlers import handler\n\n\n@handler('same.type')\ndef run(payload): ...\n"

    worker = start_worker(**make_app(first=handlers, second=handlers))

    assert worker.ended() == 2
    for named in ("'same.type'", "first.task_handlers.run", "second.task_handlers.run"):
        assert named in worker.said()
    assert "Traceback" not in worker.said()


@pytest.mark.parametrize(
    ("handlers", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_handlers_that_cannot_be_imported_end_with_2_and_the_reason_in_one_line(
    handlers: str, reason: str, start_worker: StartWorker, make_app: MakeApp
) -> None:
    worker = start_worker(**make_app(faulty=handlers))

    assert worker.ended() == 2

    (line,) = [line for line in worker.said().splitlines() if "faulty.task_handlers" in line]
    assert reason in line
    assert "line " in line
    assert "Traceback" not in worker.said()


def test_tables_that_are_missing_end_with_2_and_name_the_command(server: OwnServer, start_worker: StartWorker) -> None:
    empty = server.create(migrated=False)

    worker = start_worker(url=empty.url)

    assert worker.ended() == 2
    assert "run migrate" in str(worker.wait_for("taskqueue.service.failed")["reason"])
    assert "Traceback" not in worker.said()
    server.drop(empty.name)


def test_a_health_port_in_use_ends_with_2_in_one_line(start_worker: StartWorker, unused_port: int) -> None:
    first = start_worker("--health-port", str(unused_port)).started()

    second = start_worker("--health-port", str(unused_port))

    assert second.ended() == 2
    assert f"--health-port {unused_port}" in second.said()
    assert "Traceback" not in second.said()
    assert first.stop() == 0


def test_the_drain_timeout_gives_tasks_back_and_ends_with_3(database: QueueDatabase, start_worker: StartWorker) -> None:
    endless = [database.insert(task_type, {"seconds": 600}) for task_type in ("test.sleep", "test.block_async")]
    worker = start_worker("--drain-timeout", "1", "--task-concurrency", "4")
    for id in endless:
        database.wait_for_status(id, "running")

    assert worker.stop() == 3

    assert worker.wait_for("taskqueue.worker.stopped", exit_code=3)["released"] == 2
    for id in endless:
        task = database.task(id)
        assert (task["status"], task["retry_count"], task["lost_count"]) == ("pending", 0, 0)
        assert task["embargo_until"] <= task["updated_at"]
        (attempt,) = database.attempts(id)
        assert (attempt["outcome"], attempt["attempt"]) == ("released", 1)


def test_a_second_signal_gives_everything_back_at_once(database: QueueDatabase, start_worker: StartWorker) -> None:
    endless = database.insert("test.sleep", {"seconds": 600})
    worker = start_worker("--drain-timeout", "300")
    database.wait_for_status(endless, "running")
    worker.send(signal.SIGTERM)
    worker.wait_for("taskqueue.worker.draining", running=1)

    assert worker.stop(seconds=10) == 3

    assert database.task(endless)["status"] == "pending"
