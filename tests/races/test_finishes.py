"""Connections break while endings are written: each is written once and told truthfully."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from taskqueue import store
from taskqueue.database import Connection
from taskqueue.lifecycle import Event
from taskqueue.models import Task, TaskAttempt
from taskqueue.outcomes import Ending
from tests.support.held import failed, finish_of, finishes_of, success
from tests.support.sessions import (
    DEADLINE_SECONDS,
    Connect,
    claim,
    expire_leases,
    reclaim,
    wait_until_blocked,
)
from tests.support.tasks_in_state import task_in


@pytest.mark.parametrize("ending", [success('{"n": 1}'), failed()], ids=["success", "failure"])
def test_a_finish_whose_answer_was_lost_is_found_written_and_not_written_again(
    connect: Connect, ending: Ending
) -> None:
    task = task_in("due")
    first, second = connect(), connect()
    (claimed,) = claim(first)
    finish = finish_of(claimed, ending)
    finishes = finishes_of(finish)
    # The statement is committed, and the connection breaks before its answer is read: the session that asks next is
    # another one, and the ending still waits.
    finishes_of(finish).write(second)
    before = Task.objects.get(id=task.id)
    _kill(second, first)
    with pytest.raises(psycopg.OperationalError):
        finishes.write(first)
    assert len(finishes) == 1

    (written,) = finishes.write(connect())

    assert written.kept
    assert len(finishes) == 0
    assert Task.objects.values().get(id=task.id) == Task.objects.filter(pk=before.pk).values()[0]
    assert Task.objects.get(id=task.id).updated_at == before.updated_at
    assert TaskAttempt.objects.count() == (1 if ending.event is Event.FAIL else 0)


def test_a_finish_that_never_reached_the_table_is_written_over_the_next_connection(connect: Connect) -> None:
    task = task_in("due")
    first, second = connect(), connect()
    (claimed,) = claim(first)
    finishes = finishes_of(finish_of(claimed, success()))
    _kill(second, first)
    with pytest.raises(psycopg.OperationalError):
        finishes.write(first)
    assert Task.objects.get(id=task.id).status == "running"

    (written,) = finishes.write(second)

    assert written.kept
    assert Task.objects.get(id=task.id).status == "success"


def test_a_session_ended_while_its_finish_waits_for_a_lock_loses_nothing(connect: Connect) -> None:
    task = task_in("due")
    first, blocker, watcher = connect(), connect(), connect()
    (claimed,) = claim(first)
    finishes = finishes_of(finish_of(claimed, success()))

    with ThreadPoolExecutor(1) as pool, blocker.transaction():
        blocker.execute("SELECT FROM tasks FOR UPDATE")
        write = pool.submit(finishes.write, first)
        wait_until_blocked(watcher, first)
        _kill(watcher, first)
        with pytest.raises(psycopg.OperationalError):
            write.result(DEADLINE_SECONDS)
    (written,) = finishes.write(watcher)

    assert written.kept
    assert Task.objects.get(id=task.id).status == "success"


def test_a_finish_in_doubt_whose_claim_was_lost_meanwhile_is_told_as_lost(connect: Connect) -> None:
    task = task_in("due")
    first, second = connect(), connect()
    (claimed,) = claim(first)
    finishes = finishes_of(finish_of(claimed, success()))
    _kill(second, first)
    with pytest.raises(psycopg.OperationalError):
        finishes.write(first)
    expire_leases(second)
    assert reclaim(second)

    (written,) = finishes.write(second)

    assert not written.kept
    row = Task.objects.get(id=task.id)
    assert (row.status, row.attempt, row.worker_id) == ("running", 2, "worker-b")


def test_a_finish_in_doubt_whose_task_was_set_aside_as_a_crash_loop_is_told_as_lost(connect: Connect) -> None:
    task = task_in("due", lost_count=2)
    first, second = connect(), connect()
    (claimed,) = claim(first)
    finishes = finishes_of(finish_of(claimed, success()))
    _kill(second, first)
    with pytest.raises(psycopg.OperationalError):
        finishes.write(first)
    expire_leases(second)
    assert store.discard_crash_loops(second, "worker-b")

    (written,) = finishes.write(second)

    assert not written.kept
    assert Task.objects.get(id=task.id).error_code == "crash_loop"


def test_one_ending_that_cannot_be_stored_spoils_no_other(connect: Connect) -> None:
    for id in ("a", "bad", "c"):
        task_in("due", id=id)
    connection = connect()
    # PostgreSQL has a limit on the length of numbers that Python's JSON knows nothing of.
    results = {"a": "1", "bad": "1e200000", "c": "3"}
    finishes = finishes_of(*(finish_of(claimed, success(results[claimed.id])) for claimed in claim(connection)))

    written = finishes.write(connection)

    assert [done.kept for done in written] == [True, True, True]
    rows = Task.objects.order_by("id").values_list("id", "status", "result", "error_code", "retry_count")
    assert list(rows) == [
        ("a", "success", 1, None, 0),
        ("bad", "pending", None, "unserialisable_result", 1),
        ("c", "success", 3, None, 0),
    ]


def _kill(by: Connection, victim: Connection) -> None:
    by.execute("SELECT pg_terminate_backend(%s, 20000)", [victim.info.backend_pid])
