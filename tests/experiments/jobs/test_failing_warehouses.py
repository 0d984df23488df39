"""A warehouse that hangs, vanishes or never answers: a failed run that says so, nothing held, nobody else hurt."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from experiments.jobs.autofail import fail_expired
from experiments.jobs.outcome_pull import pull_outcomes
from experiments.jobs.run import Run
from experiments.jobs.sessions import Sessions
from experiments.jobs.snapshots import take_snapshot
from experiments.kinds import ExperimentType, Job
from experiments.models import ArmAssignment, Experiment, RunStatus, Snapshot
from experiments.scheduler.execution import execute
from experiments.scheduler.ledger import Closing
from experiments.warehouse.config import parse_config
from experiments.warehouse.opening import open_warehouse
from experiments.warehouse.session import Limits, Warehouse
from taskqueue.database import Connection
from tests.support.experiments import arms_of, make_experiment
from tests.support.job_runs import draw, open_run, outcomes_of
from tests.support.sessions import DEADLINE_SECONDS, sessions
from tests.support.warehouses import PostgreSQLSchema

pytestmark = pytest.mark.django_db(transaction=True)

_READING = [Job.SNAPSHOT, Job.DWH_PULL]


@pytest.fixture
def server(transactional_db: None) -> Iterator[PostgreSQLSchema]:
    """Whose table takes a minute to read."""
    server = PostgreSQLSchema()
    server.create("quick", {"id": "TEXT", "revenue": "INTEGER"}, [("p", 1), ("q", 0)])
    server.execute("CREATE VIEW participants AS SELECT quick.* FROM quick CROSS JOIN (SELECT pg_sleep(60)) AS pause")
    yield server
    server.close()


@pytest.fixture
def watcher(transactional_db: None) -> Iterator[Connection]:
    with sessions() as connect:
        yield connect()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def _experiment(job: Job, table: str = "participants") -> Experiment:
    if job is Job.DWH_PULL:
        experiment = make_experiment(ExperimentType.MAB_ONLINE_DWH, datasource_table=table)
        draw(experiment, ["p", "q"])
        return experiment
    experiment = make_experiment(ExperimentType.FREQ_ONLINE, datasource_table=table)
    for arm, participant in zip(arms_of(experiment), "pq", strict=True):
        ArmAssignment.objects.create(experiment=experiment, arm=arm, participant_id=participant)
    return experiment


def _work(run: Run, open_session: Callable[[str], Warehouse]) -> Callable[[], Closing | None]:
    """The run as a slot of the scheduler runs it."""
    cache = Sessions(open_session)
    function = {Job.SNAPSHOT: take_snapshot, Job.DWH_PULL: pull_outcomes}[run.job]

    def work() -> Closing | None:
        try:
            return execute(partial(function, sessions=cache), run)
        finally:
            cache.close_idle()

    return work


def _wait_for_query(watcher: Connection, role: str) -> int:
    """The warehouse's process that is in the middle of it."""
    pause = threading.Event()
    for _ in range(int(DEADLINE_SECONDS / 0.01)):
        row = watcher.execute(
            "SELECT pid FROM pg_stat_activity WHERE usename = %s AND wait_event = 'PgSleep'", [role]
        ).fetchone()
        if row is not None:
            return int(row[0])
        pause.wait(0.01)
    raise AssertionError("the warehouse was not asked")


def _assert_no_transaction_of_ours(watcher: Connection, role: str | None = None) -> None:
    rows = watcher.execute(
        "SELECT application_name, state, query FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename IS DISTINCT FROM %s::name"
        " AND backend_type = 'client backend' AND (xact_start IS NOT NULL OR state LIKE 'idle in transaction%%')",
        [role],
    ).fetchall()
    assert rows == []


def _assert_others_go_on(server: PostgreSQLSchema, pool: ThreadPoolExecutor) -> None:
    """Jobs of other experiments, in the very same warehouse too, end while one hangs."""
    for job in _READING:
        other = _experiment(job, table="quick")
        closing = pool.submit(_work(open_run(other, job), lambda _: server.open())).result(DEADLINE_SECONDS)
        assert closing is not None
        assert closing.status is RunStatus.SUCCESS
    failing = make_experiment(ExperimentType.MAB_ONLINE, enable_autofail=True)
    draw(failing, ["p"], hours_ago=30)
    assert fail_expired(open_run(failing, Job.AUTOFAIL)).counts["failed"] == 1


def _assert_nothing_but_the_reason(experiment: Experiment, job: Job, closing: Closing | None, reason: str) -> None:
    assert closing is not None
    assert (closing.status, closing.message) == (RunStatus.FAILED, reason)
    if job is Job.SNAPSHOT:
        (snapshot,) = Snapshot.objects.filter(experiment=experiment)
        assert (snapshot.status, snapshot.message) == ("failed", reason)
    assert set(outcomes_of(experiment).values()) <= {None}


@pytest.mark.parametrize("job", _READING)
def test_a_warehouse_that_vanishes_in_the_middle_of_a_query(
    job: Job, server: PostgreSQLSchema, watcher: Connection, pool: ThreadPoolExecutor
) -> None:
    experiment = _experiment(job)
    working = pool.submit(_work(open_run(experiment, job), lambda _: server.open()))
    pid = _wait_for_query(watcher, server.role)
    _assert_no_transaction_of_ours(watcher, server.role)
    _assert_others_go_on(server, pool)
    watcher.execute("SELECT pg_terminate_backend(%s)", [pid])

    closing = working.result(DEADLINE_SECONDS)

    assert closing is not None
    reason = closing.message or ""
    assert reason.startswith("connection_failed: the connection to the warehouse broke: ")
    _assert_nothing_but_the_reason(experiment, job, closing, reason)


@pytest.mark.parametrize("job", _READING)
def test_a_query_that_hangs_ends_with_its_time_limit(
    job: Job, server: PostgreSQLSchema, watcher: Connection, pool: ThreadPoolExecutor
) -> None:
    experiment = _experiment(job)
    limits = Limits(statement_seconds=0.5)
    working = pool.submit(_work(open_run(experiment, job), lambda _: server.open(limits)))
    _wait_for_query(watcher, server.role)
    _assert_no_transaction_of_ours(watcher, server.role)

    closing = working.result(DEADLINE_SECONDS)

    reason = "timeout: the warehouse stopped the query: canceling statement due to statement timeout"
    _assert_nothing_but_the_reason(experiment, job, closing, reason)


@pytest.mark.parametrize("job", _READING)
def test_a_run_whose_time_is_up_stops_its_query_and_leaves_wishes_pending(
    job: Job, server: PostgreSQLSchema, watcher: Connection, pool: ThreadPoolExecutor
) -> None:
    experiment = _experiment(job)
    Snapshot.objects.create(experiment=experiment)
    run = open_run(experiment, job)
    working = pool.submit(_work(run, lambda _: server.open()))
    pid = _wait_for_query(watcher, server.role)
    run.cancellation.stop("it did not end within 600 s")

    closing = working.result(DEADLINE_SECONDS)

    assert closing is not None
    assert (closing.status, closing.message) == (RunStatus.FAILED, "cancelled: it did not end within 600 s")
    assert Snapshot.objects.get().status == "pending"
    assert watcher.execute("SELECT FROM pg_stat_activity WHERE pid = %s AND state = 'active'", [pid]).fetchall() == []


def test_a_server_that_accepts_and_says_nothing(
    server: PostgreSQLSchema, watcher: Connection, pool: ThreadPoolExecutor
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(DEADLINE_SECONDS)
        config = parse_config(
            {**server.config, "host": "127.0.0.1", "port": silent.getsockname()[1], "sslmode": "disable"}
        )
        experiment = _experiment(Job.SNAPSHOT)

        def open_session(_: str) -> Warehouse:
            return open_warehouse(config, rules=server.rules, limits=Limits(connect_seconds=2))

        working = pool.submit(_work(open_run(experiment, Job.SNAPSHOT), open_session))
        with silent.accept()[0]:
            _assert_no_transaction_of_ours(watcher)
            _assert_others_go_on(server, pool)
            closing = working.result(DEADLINE_SECONDS)

    assert closing is not None
    reason = closing.message or ""
    assert reason.startswith("connection_failed: ")
    _assert_nothing_but_the_reason(experiment, Job.SNAPSHOT, closing, reason)
