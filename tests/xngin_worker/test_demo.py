"""`manage.py demo` as a real process on a database of its own: what it shows, how it ends, and what it leaves."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from taskqueue.handlers import registry
from tests.support import own_server
from tests.support.own_server import OwnServer, QueueDatabase
from tests.support.worker_process import LOOK_SECONDS, WorkerProcess, environment
from xngin_worker.demo.play import folder_for_logs
from xngin_worker.environment import DATA_FOLDER, PROJECT_FOLDER

STEPS = (
    *("database", "migrations", "administrator", "receiver", "warehouses", "site", "worker"),
    *("webhook", "retries", "dead task", "experiments", "jobs", "estimates", "counts", "webhooks"),
    *("exactly once", "admin page"),
)
GOES_ON = "until Ctrl-C."
DEADLINE_SECONDS = 170.0


class DemoRun:
    """One demo in a process group of its own; all that it starts can be told by a mark in its environment."""

    def __init__(self, database_url: str, *options: str, **variables: str) -> None:
        self._mark = f"DEMO_OF_TEST={secrets.token_hex(8)}"
        name, _, value = self._mark.partition("=")
        given = {**environment(database_url), "DJANGO_SETTINGS_MODULE": "xngin_worker.settings", name: value}
        self.process = subprocess.Popen(
            [sys.executable, PROJECT_FOLDER / "manage.py", "demo", *options],
            cwd="/",
            env={**given, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.output = ""
        self._changed = threading.Condition()
        self._closed = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """As soon as the output has it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        with self._changed:
            while (found := re.search(pattern, self.output, re.MULTILINE)) is None:
                left = deadline - time.monotonic()
                assert left > 0 and not self._closed, f"no {pattern!r} in:\n{self.output}"
                self._changed.wait(left)
        return found

    def ended(self, seconds: float = DEADLINE_SECONDS) -> int:
        code = self.process.wait(seconds)
        self._reader.join(DEADLINE_SECONDS)
        return code

    def signal_group(self, number: int) -> None:
        """What a terminal does at Ctrl-C."""
        os.killpg(self.process.pid, number)

    def processes(self) -> list[int]:
        """All that carry the mark and are no zombies."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and self._mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def wait_until_nothing_is_left(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while left := self.processes():
            assert time.monotonic() < deadline, [
                Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ") for pid in left
            ]
            time.sleep(LOOK_SECONDS)

    def clear_away(self) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.ended()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.output += line
                self._changed.notify_all()
        with self._changed:
            self._closed = True
            self._changed.notify_all()


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    with own_server.started() as server:
        yield server


@pytest.fixture
def database(server: OwnServer) -> Iterator[QueueDatabase]:
    database = server.create()
    yield database
    database.close()
    server.drop(database.name)


@pytest.fixture
def empty_database(server: OwnServer) -> Iterator[QueueDatabase]:
    database = server.create(migrated=False)
    yield database
    database.close()
    server.drop(database.name)


@contextlib.contextmanager
def demo(database_url: str, *options: str, **variables: str) -> Iterator[DemoRun]:
    run = DemoRun(database_url, *options, **variables)
    try:
        yield run
    finally:
        run.clear_away()


def folders_of_logs() -> set[Path]:
    return set((DATA_FOLDER / "demo").glob("*"))


def passed(output: str) -> list[str]:
    return re.findall(r"^  ([a-z ]+?) +ok +\d", output, re.MULTILINE)


@pytest.mark.slow
def test_once_passes_every_step_and_leaves_nothing_behind(empty_database: QueueDatabase) -> None:
    before = folders_of_logs()
    with demo(empty_database.url, "--once") as run:
        code = run.ended()
        run.wait_until_nothing_is_left(seconds=1)
    assert code == 0, run.output
    assert tuple(passed(run.output.partition("Summary")[2])) == STEPS
    assert "next try in 2 s" in run.output
    assert folders_of_logs() <= before
    statuses = empty_database.execute(
        "SELECT task_type, status, count(*) FROM tasks WHERE NOT starts_with(task_type, 'maintenance.')"
        " GROUP BY task_type, status ORDER BY task_type"
    )
    assert [tuple(row.values()) for row in statuses] == [
        ("demo.doomed", "dead", 1),
        ("demo.flaky", "success", 1),
        ("webhook.outbound", "success", 6),
    ]
    done = empty_database.execute(
        "SELECT DISTINCT e.experiment_type, r.job FROM job_runs r JOIN experiments e ON e.id = r.experiment_id"
        " WHERE r.status = 'success' ORDER BY 1, 2"
    )
    assert [tuple(row.values()) for row in done] == [
        ("cmab_online", "autofail"),
        ("cmab_online", "snapshot"),
        ("freq_online", "snapshot"),
        ("freq_preassigned", "snapshot"),
        ("mab_online", "autofail"),
        ("mab_online", "snapshot"),
        ("mab_online_dwh", "dwh_pull"),
        ("mab_online_dwh", "snapshot"),
    ]
    # No other worker shall go on with experiments whose warehouse went with the demo.
    assert {row["state"] for row in empty_database.execute("SELECT state FROM experiments")} == {"abandoned"}
    assert empty_database.execute("SELECT id FROM job_runs WHERE status NOT IN ('success', 'released')") == []
    assert empty_database.execute("SELECT username FROM auth_user") == []
    reconciled = subprocess.run(
        [sys.executable, os.fspath(PROJECT_FOLDER / "manage.py"), "reconcile", "run"],
        env=environment(empty_database.url),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (reconciled.returncode, reconciled.stdout.endswith(" 0 findings\n")) == (0, True), reconciled


@pytest.mark.slow
def test_it_shows_tasks_that_people_insert_and_ends_at_ctrl_c(database: QueueDatabase) -> None:
    with demo(database.url, "--admin-name", "ada", "--admin-password", "correct horse") as run:
        run.wait_for(GOES_ON)
        assert "correct horse" in run.output
        command = run.wait_for(r"dbshell <<'SQL'\n((?:.*\n)+?)SQL\n")
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(command.group(1).encode())
        run.wait_for(r"task_[-0-9a-f]{36} +webhook.outbound +[\d.]+ m?s  success")
        run.wait_for(r"task_[-0-9a-f]{36} +received as POST / HTTP/1.1")
        started = time.monotonic()
        run.signal_group(signal.SIGINT)
        assert run.ended() == 0, run.output
        assert time.monotonic() - started < 10
        run.wait_until_nothing_is_left(seconds=1)
    assert "Traceback" not in run.output
    assert [row["username"] for row in database.execute("SELECT username FROM auth_user")] == ["ada"]


@pytest.mark.slow
def test_a_worker_that_dies_ends_the_demo_and_is_named(database: QueueDatabase) -> None:
    with demo(database.url) as run:
        run.wait_for("^2. A handler fails twice")
        (worker,) = database.execute("SELECT pid FROM workers WHERE stopped_at IS NULL")
        os.kill(worker["pid"], signal.SIGKILL)
        assert run.ended() == 1
        run.wait_until_nothing_is_left(seconds=5)
    assert 'The step "retries" failed: the worker ended by itself by signal SIGKILL' in run.output
    logs = run.wait_for(r"All logs of this run are in (.+)\.$").group(1)
    assert (Path(logs) / "worker.log").is_file()


@pytest.mark.slow
def test_a_killed_demo_takes_its_processes_along(database: QueueDatabase) -> None:
    with demo(database.url) as run:
        run.wait_for(r"^  worker +ok")
        assert len(run.processes()) > 3
        run.process.kill()
        run.wait_until_nothing_is_left(seconds=20)


def test_sigterm_during_set_up_leaves_nothing_behind(empty_database: QueueDatabase) -> None:
    with demo(empty_database.url, "--once") as run:
        run.wait_for(r"^  receiver +ok")
        run.process.terminate()
        assert run.ended() == 128 + signal.SIGTERM
        run.wait_until_nothing_is_left(seconds=1)
    assert "worker" not in passed(run.output)


def test_a_database_that_is_not_there_fails_the_step_database() -> None:
    with demo("postgresql://nobody@127.0.0.1:1/nothing", "--once") as run:
        assert run.ended() == 1
    assert 'The step "database" failed' in run.output
    assert 'Failed in the step "database"' in run.output
    assert "Traceback" not in run.output


@pytest.mark.slow
def test_a_worker_without_the_demos_handlers_is_named_before_it_takes_tasks(database: QueueDatabase) -> None:
    other = WorkerProcess(database.url)
    try:
        database.wait_until_listening()
        with demo(database.url, "--once") as run:
            assert run.ended() == 1
    finally:
        other.clear_away()
    assert 'The step "worker" failed: another worker' in run.output
    assert f":{other.pid}:" in run.output
    assert database.execute("SELECT id FROM tasks") == []


def test_the_demo_is_refused_in_production(database: QueueDatabase) -> None:
    production = {
        "XNGIN_ENVIRONMENT": "production",
        "XNGIN_SECRET_KEYS": "0123456789abcdefghijklmnopqrstuvwxyz",
        "XNGIN_ALLOWED_HOSTS": "xngin.example.com",
    }
    with demo(database.url, "--once", **production) as run:
        assert run.ended() == 2
    assert "not for production" in run.output


def test_logs_of_failed_runs_go_when_they_are_old(tmp_path: Path) -> None:
    old, recent = folder_for_logs(tmp_path), folder_for_logs(tmp_path)
    a_week_and_a_bit_ago = time.time() - 8 * 86_400
    os.utime(old, (a_week_and_a_bit_ago, a_week_and_a_bit_ago))
    new = folder_for_logs(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([recent, new])


def test_only_the_demo_knows_its_handlers() -> None:
    assert [task_type for task_type in registry.handlers if task_type.startswith("demo.")] == []
