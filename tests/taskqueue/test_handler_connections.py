"""Django's connections of a slot: whatever a handler leaves behind is gone before the next, and the session stays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction

from taskqueue.handler_connections import HandlerConnections
from taskqueue.models import Task
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db(transaction=True)

_SECONDS = 20.0


class Slot:
    """A thread that runs one handler after the other, as a slot does."""

    def __init__(self, *, pooled: bool = False) -> None:
        self._connections = HandlerConnections(pooled=pooled)

    def run(self, *handlers: Callable[[], Any]) -> list[Any]:
        """What each handler returned or raised."""
        results: list[Any] = []

        def loop() -> None:
            for handler in handlers:
                try:
                    results.append(handler())
                except Exception as error:  # noqa: BLE001 - what a handler raises is its result here
                    results.append(error)
                finally:
                    self._connections.after()
            self._connections.close()

        thread = threading.Thread(target=loop)
        thread.start()
        thread.join(_SECONDS)
        assert not thread.is_alive()
        return results


@pytest.fixture
def slot() -> Iterator[Slot]:
    yield Slot()
    # Nothing of the slot's is left in the database.
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
        )
        assert cursor.fetchone() == (0,)


def _one(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone()
    return row[0] if row is not None else None


def _do(statement: str) -> Callable[[], None]:
    def handler() -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    return handler


def _session() -> int:
    return int(_one("SELECT pg_backend_pid()"))


def test_the_session_is_kept_from_task_to_task(slot: Slot) -> None:
    first, second, third = slot.run(_session, _session, _session)
    assert first == second == third


def test_a_slot_whose_handlers_use_no_database_opens_no_session(slot: Slot) -> None:
    assert slot.run(lambda: connection.connection, lambda: connection.connection) == [None, None]


@pytest.mark.parametrize(
    ("leave", "look", "clean"),
    [
        ("SET work_mem = '1MB'", "SELECT current_setting('work_mem') <> '1MB'", True),
        ("SET statement_timeout = '1ms'", "SELECT current_setting('statement_timeout')", "0"),
        ("SET TIME ZONE 'Asia/Tokyo'", "SELECT current_setting('TimeZone')", "UTC"),
        ("SET search_path = elsewhere", "SELECT current_setting('search_path') LIKE '%public%'", True),
        ("CREATE TEMP TABLE left_behind (n int)", "SELECT to_regclass('left_behind')", None),
        ("SELECT pg_advisory_lock(4711)", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", 0),
        ("PREPARE left_behind AS SELECT 1", "SELECT count(*) FROM pg_prepared_statements", 0),
        ("LISTEN left_behind", "SELECT count(*) FROM pg_listening_channels()", 0),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", "SELECT count(*) FROM pg_cursors WHERE name = 'c'", 0),
    ],
)
def test_what_a_handler_sets_in_its_session_is_gone_before_the_next(
    slot: Slot, leave: str, look: str, clean: object
) -> None:
    before, _, found, after = slot.run(_session, _do(leave), lambda: _one(look), _session)
    assert found == clean
    assert after == before


def _leave_atomic_open() -> None:
    transaction.atomic().__enter__()
    task_in("due", id="half done")


def _leave_raw_transaction_open() -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
    task_in("due", id="half done")


def _leave_autocommit_off() -> None:
    transaction.set_autocommit(False)
    task_in("due", id="half done")


def _leave_broken_transaction() -> None:
    transaction.atomic().__enter__()
    task_in("due", id="half done")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


def _raise_in_atomic() -> None:
    with transaction.atomic():
        task_in("due", id="half done")
        raise RuntimeError("no")


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize(
    "leave",
    [
        _leave_atomic_open,
        _leave_raw_transaction_open,
        _leave_autocommit_off,
        _leave_broken_transaction,
        _raise_in_atomic,
    ],
)
def test_a_transaction_left_open_is_rolled_back_and_the_next_handler_works(
    leave: Callable[[], None], pooled: bool
) -> None:
    def work() -> tuple[bool, bool, bool]:
        task_in("due", id="done")
        return connection.in_atomic_block, connection.needs_rollback, connection.get_autocommit()

    _, state = Slot(pooled=pooled).run(leave, work)

    assert state == (False, False, True)
    assert list(Task.objects.values_list("id", flat=True)) == ["done"]


def test_work_for_after_a_commit_that_never_came_is_dropped(slot: Slot) -> None:
    called: list[str] = []

    def leave() -> None:
        transaction.atomic().__enter__()
        transaction.on_commit(lambda: called.append("left behind"))

    def work() -> None:
        with transaction.atomic():
            transaction.on_commit(lambda: called.append("mine"))

    assert slot.run(leave, work) == [None, None]
    assert called == ["mine"]


def test_a_session_that_the_server_ended_is_replaced_and_nobody_notices(slot: Slot) -> None:
    def end_it() -> int:
        pid = _session()
        with psycopg.connect(**_parameters(), autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 20000)", [pid])
        return pid

    ended, next_one = slot.run(end_it, _session)

    assert isinstance(next_one, int)
    assert next_one != ended


def test_a_session_that_breaks_under_a_handler_fails_that_one_only(slot: Slot) -> None:
    broken, works = slot.run(lambda: _one("SELECT pg_terminate_backend(pg_backend_pid())"), _session)
    assert isinstance(broken, DatabaseError)
    assert isinstance(works, int)


class Unclosable:
    """A driver's connection with which nothing works any more."""

    closed = False

    def close(self) -> None:
        raise RuntimeError("cannot be closed")


def test_a_session_that_cannot_be_cleaned_nor_closed_fails_nobody(slot: Slot) -> None:
    def break_it() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        connection.close()
        connection.connection = Unclosable()
        return "done"

    result, next_one = slot.run(break_it, _session)

    assert result == "done"
    assert isinstance(next_one, int)


def test_a_session_that_a_handler_closed_is_opened_again(slot: Slot) -> None:
    first, _, second = slot.run(_session, lambda: connection.close(), _session)
    assert isinstance(second, int)
    assert first != second


def test_behind_a_pooler_the_session_is_not_reset_since_it_may_be_another_s() -> None:
    _, setting = Slot(pooled=True).run(_do("SET work_mem = '1MB'"), lambda: _one("SHOW work_mem"))
    assert setting == "1MB"


def _parameters() -> dict[str, Any]:
    given = connection.get_connection_params()
    return {name: given[name] for name in ("dbname", "user", "password", "host", "port") if name in given}
