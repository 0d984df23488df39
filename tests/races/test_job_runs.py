"""Several workers and one ledger: one unfinished run an experiment, and nothing of a lost run is written."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection as django_connection
from django.db import connections

from experiments.jobs.run import Run, RunLost
from experiments.kinds import ExperimentState, ExperimentType, Job
from experiments.models import Experiment, JobRun, JobState, RunStatus
from experiments.scheduler.ledger import (
    Closing,
    Fate,
    NewRun,
    close_expired,
    close_runs,
    open_runs,
    release_orphans,
    renew_runs,
)
from taskqueue.database import Connection
from tests.support.experiments import make_experiment
from tests.support.sessions import Connect, wait_until_blocked

_LEASE = 60.0


@pytest.fixture
def experiment(transactional_db: None) -> Experiment:
    return make_experiment(ExperimentType.FREQ_ONLINE)


def _open(
    connection: Connection, experiment: Experiment, *, worker_id: str = "worker-a", runs_seen: int | None = None
) -> str | None:
    new = NewRun(experiment_id=experiment.id, job=Job.SNAPSHOT, runs_seen=runs_seen)
    opened = open_runs(connection, [new], worker_id=worker_id, lease_seconds=_LEASE)
    return new.id if new.id in opened else None


def _opened(connection: Connection, experiment: Experiment) -> str:
    id = _open(connection, experiment)
    assert id is not None
    return id


def _success(id: str) -> Closing:
    return Closing(run_id=id, status=RunStatus.SUCCESS, message="done", counts={"draws": 3})


def _expire(connection: Connection) -> None:
    connection.execute("UPDATE job_runs SET lease_until = now() - interval '1 s' WHERE status = 'running'")


def _statuses() -> list[str]:
    return list(JobRun.objects.order_by("started_at", "id").values_list("status", flat=True))


def test_of_ten_workers_that_open_at_the_same_moment_one_does(connect: Connect, experiment: Experiment) -> None:
    sessions = [connect() for _ in range(10)]
    together = threading.Barrier(len(sessions))

    def open_one(session: Connection) -> str | None:
        together.wait(20)
        return _open(session, experiment, worker_id=f"worker-{session.info.backend_pid}")

    with ThreadPoolExecutor(len(sessions)) as pool:
        opened = [id for id in pool.map(open_one, sessions) if id is not None]

    assert len(opened) == 1
    assert list(JobRun.objects.values_list("id", "status")) == [(opened[0], "running")]


def test_an_open_that_waits_for_anothers_is_refused_once_that_commits(connect: Connect, experiment: Experiment) -> None:
    first, second, watcher = connect(), connect(), connect()
    with ThreadPoolExecutor(1) as pool:
        with first.transaction():
            _opened(first, experiment)
            waiting = pool.submit(_open, second, experiment)
            wait_until_blocked(watcher, second)

        assert waiting.result(20) is None


def test_a_job_that_another_worker_did_meanwhile_is_not_done_again(connect: Connect, experiment: Experiment) -> None:
    slow, quick = connect(), connect()
    # Both found it due after no run at all.
    close_runs(quick, [_success(_opened(quick, experiment))])

    assert _open(slow, experiment, runs_seen=0) is None
    assert _open(slow, experiment, runs_seen=1) is not None


@pytest.mark.parametrize("state", [ExperimentState.ASSIGNED, ExperimentState.ABANDONED])
def test_no_run_is_opened_of_an_experiment_that_is_not_committed(
    connect: Connect, transactional_db: None, state: ExperimentState
) -> None:
    assert _open(connect(), make_experiment(ExperimentType.FREQ_ONLINE, state=state)) is None


def test_a_run_that_another_worker_closed_as_lost_can_be_neither_renewed_nor_closed(
    connect: Connect, experiment: Experiment
) -> None:
    lost, finder = connect(), connect()
    id = _opened(lost, experiment)
    assert close_expired(finder, worker_id="worker-b") == []
    _expire(finder)

    (found,) = close_expired(finder, worker_id="worker-b")

    assert (found.id, found.experiment_id, found.job, found.worker_id) == (id, experiment.id, "snapshot", "worker-a")
    assert renew_runs(lost, [id], lease_seconds=_LEASE) == {}
    assert close_runs(lost, [_success(id)]) == {id: Fate.GONE}
    run = JobRun.objects.get()
    assert (run.status, run.counts, run.lease_until) == ("lost", None, None)
    assert "its worker was lost" in str(run.message)
    state = JobState.objects.get()
    assert (state.runs, state.failures, state.failed_at, state.succeeded_at) == (1, 1, run.finished_at, None)


def test_nobody_finds_its_own_run_expired(connect: Connect, experiment: Experiment) -> None:
    worker = connect()
    id = _opened(worker, experiment)
    _expire(worker)

    assert close_expired(worker, worker_id="worker-a") == []
    assert renew_runs(worker, [id], lease_seconds=_LEASE) == {id: True}
    assert close_expired(worker, worker_id="worker-b") == []


def test_two_finders_of_an_expired_run_close_it_once(connect: Connect, experiment: Experiment) -> None:
    first, second = connect(), connect()
    _opened(first, experiment)
    _expire(first)
    with first.transaction():
        assert len(close_expired(first, worker_id="worker-b")) == 1

        assert close_expired(second, worker_id="worker-c") == []

    assert close_expired(second, worker_id="worker-c") == []
    assert JobState.objects.get().failures == 1


def test_writes_of_a_run_in_time_hold_off_whoever_finds_it_expired(connect: Connect, experiment: Experiment) -> None:
    session, finder = connect(), connect()
    id = _opened(session, experiment)
    _expire(session)
    run = Run(id=id, job=Job.SNAPSHOT, experiment_id=experiment.id)
    with run.writing():
        Experiment.objects.filter(pk=experiment.id).update(description="written")
        assert close_expired(finder, worker_id="worker-b") == []
        assert renew_runs(finder, [id], lease_seconds=_LEASE) == {id: False}
        assert close_runs(finder, [_success(id)]) == {id: Fate.HELD}

    assert renew_runs(finder, [id], lease_seconds=_LEASE) == {id: True}
    assert close_runs(finder, [_success(id)]) == {id: Fate.CLOSED}
    assert Experiment.objects.get().description == "written"


def test_writes_of_a_lost_run_are_refused(connect: Connect, experiment: Experiment) -> None:
    session = connect()
    run = Run(id=_opened(session, experiment), job=Job.SNAPSHOT, experiment_id=experiment.id)
    _expire(session)
    close_expired(session, worker_id="worker-b")

    with pytest.raises(RunLost), run.writing():
        Experiment.objects.filter(pk=experiment.id).update(description="written")

    assert Experiment.objects.get().description == ""


def test_a_run_that_is_closed_while_its_writer_waits_for_the_row_is_refused(
    connect: Connect, experiment: Experiment
) -> None:
    finder, watcher = connect(), connect()
    run = Run(id=_opened(finder, experiment), job=Job.SNAPSHOT, experiment_id=experiment.id)
    _expire(finder)

    def write() -> str:
        try:
            with run.writing():
                return "written"
        except RunLost:
            return "refused"
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with finder.transaction():
            close_expired(finder, worker_id="worker-b")
            writing = pool.submit(write)
            wait_until_blocked(watcher)

        assert writing.result(20) == "refused"


def test_a_write_that_stands_still_loses_its_transaction_after_a_while(
    connect: Connect, experiment: Experiment
) -> None:
    run = Run(id=_opened(connect(), experiment), job=Job.SNAPSHOT, experiment_id=experiment.id)
    with run.writing(), django_connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("1min",)
    with django_connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("0",)


def test_a_closing_whose_answer_was_lost_counts_when_it_is_sent_again(connect: Connect, experiment: Experiment) -> None:
    session = connect()
    id = _opened(session, experiment)
    close_runs(session, [_success(id)])

    assert close_runs(session, [_success(id)]) == {id: Fate.CLOSED}
    assert JobState.objects.get().runs == 1
    run = JobRun.objects.get()
    assert (run.status, run.message, run.counts, run.worker_id) == ("success", "done", {"draws": 3}, "worker-a")


def test_runs_opened_while_the_connection_broke_are_given_back(connect: Connect, experiment: Experiment) -> None:
    session = connect()
    known = _opened(session, experiment)
    orphan = _opened(session, make_experiment(ExperimentType.FREQ_ONLINE))
    foreign = _open(session, make_experiment(ExperimentType.FREQ_ONLINE), worker_id="worker-b")

    assert release_orphans(session, worker_id="worker-a", known_ids=[known]) == 1

    assert dict(JobRun.objects.values_list("id", "status")) == {
        known: "running",
        orphan: "released",
        foreign: "running",
    }
    # A released run counts as nothing, so its job is due as before.
    assert not JobState.objects.exists()


def test_failures_add_up_until_a_success(connect: Connect, experiment: Experiment) -> None:
    session = connect()
    for status in (RunStatus.FAILED, RunStatus.RELEASED, RunStatus.FAILED):
        close_runs(session, [Closing(run_id=_opened(session, experiment), status=status, message="no")])
    state = JobState.objects.get()
    last = JobRun.objects.order_by("started_at").last()
    assert last is not None
    assert (state.failures, state.runs, state.failed_at) == (2, 2, last.finished_at)

    close_runs(session, [_success(_opened(session, experiment))])

    state.refresh_from_db()
    last = JobRun.objects.order_by("started_at").last()
    assert last is not None
    assert (state.failures, state.runs, state.succeeded_at) == (0, 3, last.started_at)
    assert _statuses() == ["failed", "released", "failed", "success"]
