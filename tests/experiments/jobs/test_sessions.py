"""Sessions with warehouses: reused while nothing changed, one user at a time, dropped when in doubt."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from experiments.errors import DatasourceError
from experiments.jobs.run import Cancellation, RunCancelled
from experiments.jobs.sessions import Keeping, Sessions, close_sessions
from experiments.models import Datasource
from experiments.warehouse.session import Warehouse
from taskqueue.database import Connection
from taskqueue.handlers import registry
from taskqueue.models import Task
from tests.support.experiments import make_datasource
from tests.support.sessions import DEADLINE_SECONDS, sessions
from tests.support.warehouses import DuckDBFile, PostgreSQLSchema, WarehouseServer

pytestmark = pytest.mark.django_db

_SLEEP = "SELECT pg_sleep(60)"
_SOON = 0.02


class Opened:
    """A cache whose sessions a test can count, as it opened them and as the warehouse's server sees them."""

    def __init__(self, server: WarehouseServer, keeping: Keeping | None = None) -> None:
        self.server = server
        self.sessions = Sessions(self._open, keeping=keeping)
        self.count = 0

    def _open(self, _: str) -> Warehouse:
        self.count += 1
        return self.server.open()

    def pid(self, datasource: Datasource) -> Any:
        """The server process of a session that is used once."""
        with self.sessions.use(datasource.id, Cancellation()) as session:
            return _pid(session)


@pytest.fixture
def server(db: None) -> Iterator[PostgreSQLSchema]:
    server = PostgreSQLSchema()
    yield server
    server.close()


@pytest.fixture
def opened(server: PostgreSQLSchema) -> Iterator[Opened]:
    opened = Opened(server)
    yield opened
    opened.sessions.close_idle()
    _wait_until_no_keeper()


@pytest.fixture
def watcher(db: None) -> Iterator[Connection]:
    with sessions() as connect:
        yield connect()


def _pid(session: Warehouse) -> Any:
    return session.fetch("SELECT pg_backend_pid()")[0][0]


def _alive(watcher: Connection, pid: Any) -> bool:
    return bool(watcher.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [pid]).fetchall())


def _wait_until_gone(watcher: Connection, pid: Any) -> None:
    pause = threading.Event()
    for _ in range(int(DEADLINE_SECONDS / 0.01)):
        if not _alive(watcher, pid):
            return
        pause.wait(0.01)
    raise AssertionError(f"the session {pid} is still open")


def _wait_until_no_keeper() -> None:
    for thread in threading.enumerate():
        if thread.name == "idle warehouse sessions":
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive()


def test_a_session_is_used_again_while_the_config_stays(opened: Opened) -> None:
    datasource = make_datasource(config={"type": "x"})
    assert opened.pid(datasource) == opened.pid(datasource)
    assert opened.count == 1


def test_a_session_of_an_older_config_is_closed_and_not_used_again(opened: Opened, watcher: Connection) -> None:
    datasource = make_datasource(config={"type": "x"})
    old = opened.pid(datasource)
    # As plain SQL does it: nothing but the config changes.
    Datasource.objects.filter(pk=datasource.pk).update(config={"type": "y"})

    assert opened.pid(datasource) != old

    _wait_until_gone(watcher, old)


def test_a_session_whose_config_changed_while_it_was_in_use_is_not_used_again(opened: Opened) -> None:
    datasource = make_datasource(config={"type": "x"})
    with opened.sessions.use(datasource.id, Cancellation()) as session:
        Datasource.objects.filter(pk=datasource.pk).update(config={"type": "y"})
        old = _pid(session)
    assert opened.pid(datasource) != old


def test_each_datasource_has_its_own_sessions(opened: Opened) -> None:
    one, other = make_datasource(), make_datasource()
    assert opened.pid(one) != opened.pid(other)
    assert opened.count == 2


def test_two_users_at_once_never_share_a_session(opened: Opened) -> None:
    datasource = make_datasource()
    with ExitStack() as stack:
        users = [stack.enter_context(opened.sessions.use(datasource.id, Cancellation())) for _ in range(3)]
        assert len({_pid(user) for user in users}) == 3
    # Of the three, two are kept.
    assert opened.sessions.idle == 2


def test_no_more_than_so_many_are_kept_in_all(server: PostgreSQLSchema) -> None:
    opened = Opened(server, Keeping(in_all=2))
    first, *others = [make_datasource() for _ in range(3)]
    old = opened.pid(first)
    for datasource in others:
        opened.pid(datasource)
    assert opened.sessions.idle == 2
    assert opened.pid(first) != old
    opened.sessions.close_idle()


def test_a_session_that_broke_while_it_was_idle_is_replaced(opened: Opened, watcher: Connection) -> None:
    datasource = make_datasource()
    old = opened.pid(datasource)
    watcher.execute("SELECT pg_terminate_backend(%s, 5000)", [old])
    assert opened.pid(datasource) != old


def test_a_session_whose_user_failed_is_closed(opened: Opened, watcher: Connection) -> None:
    datasource = make_datasource()
    with pytest.raises(ZeroDivisionError), opened.sessions.use(datasource.id, Cancellation()) as session:
        pid = _pid(session)
        raise ZeroDivisionError
    assert opened.sessions.idle == 0
    _wait_until_gone(watcher, pid)


def test_a_cancelled_query_ends_at_once_and_its_session_is_closed(opened: Opened, watcher: Connection) -> None:
    datasource = make_datasource()
    cancellation = Cancellation()
    with opened.sessions.use(datasource.id, cancellation) as session:
        pid = _pid(session)
        with ThreadPoolExecutor(1) as pool:
            slept = pool.submit(session.fetch, _SLEEP)
            _wait_for_query(watcher, pid)
            cancellation.stop("enough")
            error = slept.exception(DEADLINE_SECONDS)
    assert isinstance(error, DatasourceError)
    assert error.code == "cancelled"
    assert opened.sessions.idle == 0
    _wait_until_gone(watcher, pid)


def test_a_cancellation_after_its_use_does_not_reach_the_next_user(opened: Opened) -> None:
    datasource = make_datasource()
    earlier = Cancellation()
    with opened.sessions.use(datasource.id, earlier) as session:
        pid = _pid(session)
    with opened.sessions.use(datasource.id, Cancellation()) as session:
        earlier.stop("too late")
        assert _pid(session) == pid


def test_a_run_that_was_told_to_stop_opens_nothing(opened: Opened) -> None:
    datasource = make_datasource()
    cancellation = Cancellation()
    cancellation.stop("its worker is stopping")
    with pytest.raises(RunCancelled), opened.sessions.use(datasource.id, cancellation):
        pytest.fail("a session was handed out")
    assert opened.count == 0


def test_a_run_that_was_told_to_stop_gets_no_kept_session_either(opened: Opened) -> None:
    datasource = make_datasource()
    opened.pid(datasource)
    cancellation = Cancellation()
    cancellation.stop("its worker is stopping")
    with pytest.raises(RunCancelled), opened.sessions.use(datasource.id, cancellation):
        pytest.fail("a session was handed out")
    assert opened.sessions.idle == 0


def test_pruning_closes_what_has_another_config_now_and_leaves_the_rest(opened: Opened, watcher: Connection) -> None:
    changed, same = make_datasource(config={"type": "x"}), make_datasource()
    old, kept = opened.pid(changed), opened.pid(same)
    Datasource.objects.filter(pk=changed.pk).update(config={"type": "y"})

    assert opened.sessions.prune() == 1
    assert opened.sessions.prune() == 0

    _wait_until_gone(watcher, old)
    assert opened.pid(same) == kept


def test_the_task_prunes_the_datasource_it_names_and_says_how_many_sessions_were_closed(opened: Opened) -> None:
    one, other = (make_datasource(config={"type": "x"}) for _ in range(2))
    for datasource in (one, other):
        opened.pid(datasource)
    Datasource.objects.update(config={"type": "y"})
    task = Task.objects.get(payload__datasource_id=one.pk)
    handler = registry.get(task.task_type)
    assert handler is not None

    assert handler.function(handler.parse(task.payload)) == {"closed": 1}

    assert opened.sessions.idle == 1


def test_pruning_does_not_touch_a_running_query(opened: Opened, watcher: Connection) -> None:
    datasource = make_datasource(config={"type": "x"})
    with opened.sessions.use(datasource.id, Cancellation()) as session, ThreadPoolExecutor(1) as pool:
        pid = _pid(session)
        slept = pool.submit(session.fetch, "SELECT pg_sleep(0.3), 'done'")
        _wait_for_query(watcher, pid)
        Datasource.objects.filter(pk=datasource.pk).update(config={"type": "y"})
        assert opened.sessions.prune() == 0
        assert slept.result(DEADLINE_SECONDS)[0][1] == "done"


def test_a_process_that_ends_closes_what_it_kept(opened: Opened, watcher: Connection) -> None:
    pid = opened.pid(make_datasource())
    close_sessions()
    _wait_until_gone(watcher, pid)


@pytest.mark.django_db(transaction=True)
def test_idle_sessions_are_closed_in_time_and_so_is_the_look_after_them(
    server: PostgreSQLSchema, watcher: Connection
) -> None:
    opened = Opened(server, Keeping(idle_seconds=0.05, look_seconds=_SOON))
    pid = opened.pid(make_datasource())
    _wait_until_gone(watcher, pid)
    _wait_until_no_keeper()
    assert opened.sessions.idle == 0


@pytest.mark.django_db(transaction=True)
def test_a_changed_config_is_noticed_without_being_told(server: PostgreSQLSchema, watcher: Connection) -> None:
    opened = Opened(server, Keeping(look_seconds=_SOON))
    changed, same = make_datasource(config={"type": "x"}), make_datasource()
    old, kept = opened.pid(changed), opened.pid(same)
    Datasource.objects.filter(pk=changed.pk).update(config={"type": "y"})
    _wait_until_gone(watcher, old)
    assert opened.pid(same) == kept
    opened.sessions.close_idle()
    _wait_until_no_keeper()


def test_many_threads_at_once_share_nothing_and_leave_few_sessions(server: PostgreSQLSchema) -> None:
    opened = Opened(server)
    in_use: set[Any] = set()
    lock = threading.Lock()
    datasource_id = make_datasource().id

    def use(_: int) -> None:
        with opened.sessions.use(datasource_id, Cancellation()) as session:
            pid = _pid(session)
            with lock:
                assert pid not in in_use
                in_use.add(pid)
            session.fetch("SELECT pg_sleep(0.002)")
            with lock:
                in_use.remove(pid)

    def work(start: int) -> None:
        try:
            for number in range(10):
                use(start + number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, start) for start in range(4)]:
            future.result(DEADLINE_SECONDS)
    assert opened.sessions.idle <= 2
    opened.sessions.close_idle()
    _wait_until_no_keeper()


def test_files_of_duckdb_are_not_kept_open(tmp_path: Path) -> None:
    file = DuckDBFile(tmp_path)
    opened = Opened(file)
    datasource = make_datasource()
    for _ in range(2):
        with opened.sessions.use(datasource.id, Cancellation()) as session:
            session.fetch("SELECT 1")
        # A writer is let in at once.
        file.execute("CREATE OR REPLACE TABLE t (a INTEGER)")
    assert (opened.count, opened.sessions.idle) == (2, 0)


def _wait_for_query(watcher: Connection, pid: Any) -> None:
    pause = threading.Event()
    for _ in range(int(DEADLINE_SECONDS / 0.01)):
        if watcher.execute("SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'", [pid]).fetchall():
            return
        pause.wait(0.01)
    raise AssertionError("the query did not begin")
