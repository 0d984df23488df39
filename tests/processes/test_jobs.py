"""Maintenance jobs under real workers: one at a time for each experiment, whatever crashes, and orderly ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from itertools import groupby

import pytest

from tests.support.committed import commit_experiment
from tests.support.own_server import QueueDatabase
from tests.support.worker_process import LOOK_SECONDS, REPOSITORY, StartWorker, WorkerProcess

MARKING = "tests.support.marking_settings"


@pytest.fixture
def start(start_worker: StartWorker) -> Iterator[StartWorker]:
    """Start a worker whose jobs leave marks, and that looks often."""

    def start(*options: str, **how: str) -> WorkerProcess:
        often = () if "--poll-interval" in options else ("--poll-interval", "0.3")
        return start_worker(*often, *options, DJANGO_SETTINGS_MODULE=MARKING, **how)

    yield start


def _runs(database: QueueDatabase, experiment_id: str) -> list[tuple[str, str | None]]:
    rows = database.execute(
        "SELECT status, message FROM job_runs WHERE experiment_id = %s ORDER BY started_at", [experiment_id]
    )
    return [(row["status"], row["message"]) for row in rows]


def _wait_for_running(database: QueueDatabase, count: int = 1) -> None:
    database.wait_for(
        "SELECT 1 AS enough FROM job_runs WHERE status = 'running' AND id IN (SELECT run_id FROM marks)"
        " HAVING count(*) >= %s",
        [count],
    )


def _held_by(database: QueueDatabase, worker: WorkerProcess) -> list[str]:
    """Unfinished runs of this worker; none when one is in the middle of a write, which nobody can take for lost."""
    mine = [f"%:{worker.pid}:%"]
    rows = database.execute("SELECT id FROM job_runs WHERE status = 'running' AND worker_id LIKE %s ORDER BY id", mine)
    free = database.execute(
        "SELECT id FROM job_runs WHERE status = 'running' AND worker_id LIKE %s ORDER BY id"
        " FOR NO KEY UPDATE SKIP LOCKED",
        mine,
    )
    return [row["id"] for row in rows] if rows == free else []


def _stop_in_the_middle(database: QueueDatabase, worker: WorkerProcess) -> list[str]:
    """Hold it still while jobs of it are between two writes; their runs."""
    deadline = time.monotonic() + 20
    while True:
        assert time.monotonic() < deadline, database.picture()
        worker.send(signal.SIGSTOP)
        held = _held_by(database, worker)
        # Once more, since the signal may have met statements that were under way.
        time.sleep(LOOK_SECONDS)
        if held and held == _held_by(database, worker):
            return held
        worker.send(signal.SIGCONT)
        time.sleep(LOOK_SECONDS)


def _request_snapshots(database: QueueDatabase) -> None:
    database.execute("INSERT INTO snapshots (experiment_id) SELECT id FROM experiments")


def _wait_until_all_is_done(database: QueueDatabase) -> None:
    """Until nothing is due or runs: jobs of lost runs are aged past their backoff, which nobody has time for here."""
    deadline = time.monotonic() + 30
    while True:
        database.execute("UPDATE job_states SET failed_at = failed_at - interval '1 day' WHERE failures > 0")
        left = database.execute(
            "SELECT id FROM experiments e WHERE EXISTS (SELECT FROM snapshots s WHERE s.experiment_id = e.id"
            " AND s.status = 'pending') OR EXISTS (SELECT FROM job_runs r WHERE r.experiment_id = e.id"
            " AND r.status = 'running') OR EXISTS (SELECT FROM job_states s WHERE s.experiment_id = e.id"
            " AND s.failures > 0) OR (SELECT count(*) FROM job_states s WHERE s.experiment_id = e.id)"
            " <> CASE WHEN experiment_type = 'mab_online_dwh' THEN 2 ELSE 1 END"
        )
        if not left:
            return
        assert time.monotonic() < deadline, (left, database.execute("SELECT * FROM job_runs WHERE status = 'running'"))
        time.sleep(0.1)


@pytest.mark.slow
def test_an_experiment_never_has_two_jobs_whatever_happens_to_its_workers(
    database: QueueDatabase, start: StartWorker
) -> None:
    experiments = [
        commit_experiment(database, kind, draws=2 if kind == "mab_online_dwh" else 0)
        for _ in range(20)
        for kind in ("freq_online", "mab_online_dwh")
    ]
    nobodys = database.insert("test.noop")
    options = ("--only", "jobs", "--job-concurrency", "3", "--lease", "3")
    stopped, killed, *others = [start(*options) for _ in range(4)]
    for worker in (stopped, killed, *others):
        worker.started()
    _wait_for_running(database)

    lost = _stop_in_the_middle(database, stopped)
    lost += _stop_in_the_middle(database, killed)
    killed.kill()
    _request_snapshots(database)
    # The others find them when the leases have run out, and do the jobs again.
    database.wait_for(
        "SELECT 1 AS all_lost FROM job_runs WHERE id = ANY (%s) AND status = 'lost' HAVING count(*) = %s",
        [lost, len(lost)],
    )
    _wait_until_all_is_done(database)
    stopped.send(signal.SIGCONT)
    stopped.wait_for("experiments.run.lost")
    # It goes on to serve, beside the others.
    _request_snapshots(database)
    _wait_until_all_is_done(database)
    for worker in (stopped, *others):
        assert worker.stop() == 0

    assert database.task(nobodys)["attempt"] == 0
    # By the ledger: no two runs of an experiment overlap, none is left open, each lost one was done again.
    overlaps = database.execute(
        "SELECT a.id, b.id FROM job_runs a JOIN job_runs b USING (experiment_id) WHERE a.id < b.id"
        " AND a.started_at < b.finished_at AND b.started_at < a.finished_at"
    )
    assert overlaps == []
    statuses = {
        row["status"]: row["n"] for row in database.execute("SELECT status, count(*) AS n FROM job_runs GROUP BY 1")
    }
    assert statuses.pop("lost") == len(lost)
    assert statuses.keys() == {"success"}
    # By the jobs' own marks: what one run writes stands in one piece, and a lost run has not written its end.
    marks = database.execute("SELECT experiment_id, run_id, step FROM marks ORDER BY experiment_id, id")
    done = 0
    for _, of_experiment in groupby(marks, key=lambda row: row["experiment_id"]):
        pieces = [
            (id, [row["step"] for row in rows]) for id, rows in groupby(of_experiment, key=lambda row: row["run_id"])
        ]
        assert len({id for id, _ in pieces}) == len(pieces)
        for id, steps in pieces:
            assert steps == ["begun"] if id in lost else ["begun", "done"]
            done += id not in lost
    assert done == statuses["success"] >= 2 * len(experiments)


def test_a_stopping_worker_waits_for_its_jobs_and_gives_back_those_that_take_too_long(
    database: QueueDatabase, start: StartWorker
) -> None:
    short = commit_experiment(database)
    endless = [commit_experiment(database, description=described) for described in ("wait", "hang")]
    worker = start("--drain-timeout", "1.5", "--job-concurrency", "6")
    _wait_for_running(database, 2)

    assert worker.stop() == 3

    assert worker.wait_for("taskqueue.worker.stopped", exit_code=3)["released"] == 2
    assert [status for status, _ in _runs(database, short)] == ["success"]
    for experiment in endless:
        assert _runs(database, experiment) == [("released", None)]
        # As if it had never run, so it is due again at once.
        assert database.execute("SELECT * FROM job_states WHERE experiment_id = %s", [experiment]) == []
    assert database.sessions() == []


def test_what_is_committed_or_asked_for_begins_at_once_and_max_jobs_ends_with_0(
    database: QueueDatabase, start: StartWorker
) -> None:
    worker = start("--poll-interval", "300", "--max-jobs", "2").started()
    database.wait_until_listening()

    experiment = commit_experiment(database)
    database.wait_for("SELECT 1 AS done FROM job_runs WHERE status = 'success'")
    database.execute("INSERT INTO snapshots (experiment_id) VALUES (%s)", [experiment])

    assert worker.ended() == 0
    assert worker.wait_for("taskqueue.worker.stopped")["reason"] == "2 jobs begun (--max-jobs)"
    assert database.execute("SELECT status FROM snapshots") == [{"status": "success"}]


def test_exit_when_idle_waits_for_what_tasks_and_jobs_give_each_other(
    database: QueueDatabase, start: StartWorker
) -> None:
    # A job enqueues a task, which asks for a snapshot, which is another job.
    experiment = commit_experiment(database, description="ask for another")

    assert start("--exit-when-idle").ended() == 0

    assert [status for status, _ in _runs(database, experiment)] == ["success", "success"]
    assert (database.count("success"), database.count("pending")) == (1, 0)


def test_a_worker_for_tasks_alone_leaves_jobs_alone(database: QueueDatabase, start: StartWorker) -> None:
    experiment = commit_experiment(database)
    database.insert("test.noop")

    assert start("--only", "tasks", "--exit-when-idle").ended() == 0

    assert (database.count("success"), _runs(database, experiment)) == (1, [])


def test_jobs_that_hang_in_every_slot_end_with_1(database: QueueDatabase, start: StartWorker) -> None:
    experiment = commit_experiment(database, description="hang")

    worker = start("--job-concurrency", "1", "--job-timeout", "1")

    assert worker.ended() == 1
    assert worker.wait_for("experiments.run.stuck")["slots"] == 1
    ((status, message),) = _runs(database, experiment)
    assert (status, str(message).partition(":")[0]) == ("failed", "timeout")


def test_when_the_scheduler_fails_tasks_are_drained_and_it_ends_with_1(
    database: QueueDatabase, start: StartWorker
) -> None:
    commit_experiment(database)
    task = database.insert("test.sleep", {"seconds": 2.5})
    worker = start("--db-outage", "0.2")
    database.wait_for("SELECT 1 AS done FROM job_runs WHERE status = 'success'")
    database.wait_for_status(task, "running")
    database.execute("ALTER TABLE job_states RENAME TO away")

    assert worker.ended() == 1

    assert worker.wait_for("taskqueue.service.failed")["part"] == "jobs"
    assert database.task(task)["status"] == "success"


def test_when_the_queue_fails_jobs_are_drained_and_it_ends_with_1(database: QueueDatabase, start: StartWorker) -> None:
    experiment = commit_experiment(database, description="wait")
    worker = start("--db-outage", "0.2")
    _wait_for_running(database)
    database.execute("ALTER TABLE tasks RENAME TO away")
    worker.wait_for("taskqueue.service.failed")
    worker.wait_for("taskqueue.worker.draining", running=1)
    # It waits for the job, until somebody loses patience.
    assert _runs(database, experiment) == [("running", None)]

    assert worker.stop() == 1

    assert _runs(database, experiment) == [("released", None)]


def test_a_job_by_hand_that_is_stopped_gives_its_run_back_and_ends_with_1(
    database: QueueDatabase, start_worker: StartWorker
) -> None:
    experiment = commit_experiment(database, description="wait")
    command = [sys.executable, os.fspath(REPOSITORY / "manage.py"), "run_job", "snapshot", experiment]
    by_hand = start_worker(command=command, DJANGO_SETTINGS_MODULE=MARKING)
    _wait_for_running(database)

    assert by_hand.stop() == 1

    assert "interrupted; the run was given back" in by_hand.said()
    assert _runs(database, experiment) == [("released", None)]
