"""Signals at any moment of a worker's life, and through the shells that start it: a clean end and no orphan."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.support.own_server import QueueDatabase
from tests.support.worker_process import LOOK_SECONDS, REPOSITORY, StartWorker, WorkerProcess, catches

# Moments of a start, in seconds after the process first catches signals: Python, Django and the apps load meanwhile.
MOMENTS = (0.0, 0.15, 0.4, 0.8)


def wait_until_it_catches_signals(worker: WorkerProcess) -> None:
    deadline = time.monotonic() + 30
    # Not SIGINT, which Python itself catches from its first moment on.
    while not catches(worker.pid, signal.SIGTERM):
        assert worker.process.poll() is None, worker.said()
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("number", "moment"), [*((signal.SIGTERM, moment) for moment in MOMENTS), (signal.SIGINT, MOMENTS[2])]
)
def test_a_signal_during_start_ends_with_0(
    number: signal.Signals, moment: float, database: QueueDatabase, start_worker: StartWorker
) -> None:
    worker = start_worker()
    wait_until_it_catches_signals(worker)
    time.sleep(moment)

    assert worker.stop(number) == 0

    assert "Traceback" not in worker.said()
    assert worker.others_in_session() == []
    assert database.sessions() == []


def test_it_catches_signals_before_django_is_loaded(start_worker: StartWorker, tmp_path: Path) -> None:
    # The settings module is the first thing that Django loads; this one never ends.
    loading = tmp_path / "loading"
    (tmp_path / "slow_settings.py").write_text(
        f"import pathlib, time\npathlib.Path({str(loading)!r}).touch()\ntime.sleep(1.5)\n"
        "from tests.support.worker_settings import *\n"
    )
    worker = start_worker(DJANGO_SETTINGS_MODULE="slow_settings", PYTHONPATH=f"{REPOSITORY}:{tmp_path}")
    deadline = time.monotonic() + 30
    while not loading.exists():
        assert time.monotonic() < deadline, worker.said()
        time.sleep(LOOK_SECONDS)

    assert worker.stop() == 0

    assert worker.wait_for("taskqueue.worker.stopped", exit_code=0)["reason"] == f"signal {signal.SIGTERM.value}"


def test_a_worker_told_to_stop_while_it_starts_takes_nothing(
    database: QueueDatabase, start_worker: StartWorker
) -> None:
    database.insert_many(50, "test.noop")
    worker = start_worker()
    wait_until_it_catches_signals(worker)

    assert worker.stop() == 0

    assert database.count("pending") == 50


def commands() -> list[str]:
    (line,) = [line for line in (REPOSITORY / "Procfile").read_text().splitlines() if line.startswith("worker:")]
    return ["./run runworker", line.partition(":")[2].strip()]


@pytest.mark.parametrize("command", commands())
def test_a_signal_to_the_shell_that_started_it_drains_the_worker(
    command: str, database: QueueDatabase, start_worker: StartWorker
) -> None:
    short = database.insert("test.sleep", {"seconds": 1.5})
    endless = database.insert("test.sleep", {"seconds": 600})
    worker = start_worker(command=["sh", "-c", command], XNGIN_WORKER_DRAIN_TIMEOUT="2")
    for id in (short, endless):
        database.wait_for_status(id, "running")

    code = worker.stop()

    # A shell that does not become the worker ends with the signal; then the worker's own code is in its log.
    assert code in (3, -signal.SIGTERM)
    assert worker.wait_for("taskqueue.worker.draining")["running"] >= 1
    assert worker.wait_for("taskqueue.worker.stopped")["exit_code"] == 3
    worker.wait_until_alone()
    assert database.task(short)["status"] == "success"
    task = database.task(endless)
    assert (task["status"], task["retry_count"]) == ("pending", 0)
    assert [attempt["outcome"] for attempt in database.attempts(endless)] == ["released"]
    assert database.sessions() == []


def test_a_worker_outlives_a_parent_that_is_no_command_line(
    database: QueueDatabase, start_worker: StartWorker, tmp_path: Path
) -> None:
    script = tmp_path / "start-in-background"
    script.write_text("#!/bin/sh\n./run runworker --max-tasks 1 &\nsleep 600\n")
    worker = start_worker(command=["sh", str(script)]).started()
    worker.send(signal.SIGTERM)
    worker.process.wait(10)

    database.wait_for_status(database.insert("test.noop"), "success")

    worker.wait_for("taskqueue.worker.stopped", exit_code=0)
