"""Behind PgBouncer in transaction mode each task runs once, with our setting for it and with the setting forgotten."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support import pooler
from tests.support.own_server import OwnServer, QueueDatabase
from tests.support.worker_process import StartWorker, WorkerProcess

TASKS = 1000
OPTIONS = ("--poll-interval", "0.5", "--lease", "60")


def run_through(database: QueueDatabase, file: Path, workers: list[WorkerProcess]) -> None:
    """Two workers, 1,000 tasks that append their id: each once."""
    for worker in workers:
        worker.started()
    database.insert_many(TASKS, "test.append", {"file": str(file)})
    database.wait_until_done(seconds=60)
    runs = Counter(line.split()[0] for line in file.read_text().splitlines())
    assert len(runs) == TASKS
    assert set(runs.values()) == {1}
    assert database.count("success") == TASKS
    for worker in workers:
        assert worker.stop() == 0


def test_with_the_setting_workers_only_poll_and_say_so_once(
    server: OwnServer, database: QueueDatabase, start_worker: StartWorker, tmp_path: Path
) -> None:
    with pooler.started(server, database.name) as url:
        workers = [start_worker(*OPTIONS, url=url, XNGIN_PGBOUNCER="true") for _ in range(2)]

        run_through(database, tmp_path / "ids", workers)

    for worker in workers:
        assert "polling only" in str(worker.wait_for("taskqueue.worker.started")["listening"])
        assert len(worker.lines("taskqueue.worker.started")) == 1
        assert worker.lines("taskqueue.database.lost") == []
        assert worker.lines("taskqueue.listen.changed") == []


@pytest.mark.parametrize("ignored", ["", "extra_float_digits, options"], ids=["refuses options", "ignores options"])
def test_with_the_setting_forgotten_the_worker_notices_and_polls(
    ignored: str, server: OwnServer, database: QueueDatabase, start_worker: StartWorker, tmp_path: Path
) -> None:
    with pooler.started(server, database.name, ignore_startup_parameters=ignored) as url:
        workers = [start_worker(*OPTIONS, url=url) for _ in range(2)]
        for worker in workers:
            deaf = worker.wait_for("taskqueue.listen.changed", state="deaf")
            assert "XNGIN_PGBOUNCER=true" in str(deaf["reason"])
        database.wait_for("SELECT 1 AS deaf FROM workers WHERE listen_state = 'deaf' HAVING count(*) = 2")

        run_through(database, tmp_path / "ids", workers)

    for worker in workers:
        assert worker.lines("taskqueue.database.lost") == []
        assert len(worker.lines("taskqueue.listen.changed", state="deaf")) == 1
