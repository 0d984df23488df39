"""One pending task for each dedupe key, whoever enqueues, claims, fails and retries at the same moment."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from django.db import connection as django_connection
from django.db import transaction

from taskqueue.lifecycle import Event
from taskqueue.models import Task, TaskAttempt
from taskqueue.operations import enqueue
from taskqueue.outcomes import Ending
from tests.support.held import failed, finish_of, finishes_of
from tests.support.sessions import DEADLINE_SECONDS, Connect, claim, wait_until_blocked
from tests.support.tasks_in_state import task_in

_CALLERS = 20


def test_twenty_callers_at_once_make_one_task_and_all_get_it(connect: Connect) -> None:
    start = threading.Barrier(_CALLERS)

    def call(number: int) -> str:
        try:
            start.wait(DEADLINE_SECONDS)
            return enqueue("test.noop", {"n": number}, dedupe_key="k").id
        finally:
            django_connection.close()

    with ThreadPoolExecutor(_CALLERS) as pool:
        ids = set(pool.map(call, range(_CALLERS)))

    assert ids == {Task.objects.get().id}


def test_a_caller_whose_key_is_being_enqueued_waits_and_gets_that_task(connect: Connect) -> None:
    watcher = connect()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first = enqueue("test.noop", dedupe_key="k")
            other = pool.submit(_enqueue_elsewhere)
            wait_until_blocked(watcher)
        assert other.result(DEADLINE_SECONDS) == first.id

    assert Task.objects.count() == 1


def test_a_caller_whose_key_was_rolled_back_meanwhile_makes_its_own_task(connect: Connect) -> None:
    watcher = connect()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            enqueue("test.noop", dedupe_key="k")
            other = pool.submit(_enqueue_elsewhere)
            wait_until_blocked(watcher)
            transaction.set_rollback(True)
        mine = other.result(DEADLINE_SECONDS)

    assert Task.objects.get().id == mine


def test_a_key_is_free_once_its_task_was_claimed(connect: Connect) -> None:
    running = task_in("due", dedupe_key="k")
    worker, watcher = connect(), connect()

    with ThreadPoolExecutor(1) as pool:
        with worker.transaction():
            assert claim(worker)
            other = pool.submit(_enqueue_elsewhere)
            wait_until_blocked(watcher)
        newer = other.result(DEADLINE_SECONDS)

    assert newer != running.id
    assert dict(Task.objects.values_list("id", "status")) == {running.id: "running", newer: "pending"}


def test_a_failed_task_whose_key_a_newer_one_holds_is_superseded(connect: Connect) -> None:
    task = task_in("due", dedupe_key="k")
    worker = connect()
    (claimed,) = claim(worker)
    newer = enqueue("test.noop", dedupe_key="k")

    (written,) = finishes_of(finish_of(claimed, failed("no luck"))).write(worker)

    assert (written.kept, written.superseded) == (True, True)
    row = Task.objects.get(id=task.id)
    assert (row.status, row.error_code) == ("dead_lettered", "superseded")
    assert row.message == "another pending task holds its dedupe key\nno luck"
    (attempt,) = TaskAttempt.objects.filter(task=task)
    assert (attempt.outcome, attempt.error_code, attempt.next_try_at) == ("failed", "error", None)
    newer.refresh_from_db()
    assert (newer.status, newer.attempt) == ("pending", 0)


def test_a_newer_task_that_appears_between_look_and_write_supersedes_all_the_same(connect: Connect) -> None:
    task = task_in("due", id="old", dedupe_key="k")
    task_in("due", id="other")
    worker, watcher = connect(), connect()
    finishes = finishes_of(*(finish_of(claimed, failed()) for claimed in claim(worker)))

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            newer = enqueue("test.noop", dedupe_key="k")
            # The look finds no pending task with the key; the write then waits for this insert to settle.
            write = pool.submit(finishes.write, worker)
            wait_until_blocked(watcher, worker)
        written = {done.finish.held.claim.id: done for done in write.result(DEADLINE_SECONDS)}

    assert (written["old"].kept, written["old"].superseded) == (True, True)
    assert (written["other"].kept, written["other"].superseded) == (True, False)
    states = dict(Task.objects.values_list("id", "status"))
    assert states == {task.id: "dead_lettered", "other": "pending", newer.id: "pending"}
    assert TaskAttempt.objects.count() == 2


def test_a_released_task_whose_key_a_newer_one_holds_is_superseded(connect: Connect) -> None:
    task = task_in("due", dedupe_key="k")
    worker = connect()
    (claimed,) = claim(worker)
    enqueue("test.noop", dedupe_key="k")

    (written,) = finishes_of(finish_of(claimed, Ending(event=Event.RELEASE))).write(worker)

    assert written.superseded
    assert Task.objects.get(id=task.id).error_code == "superseded"


def _enqueue_elsewhere() -> str:
    try:
        return enqueue("test.noop", dedupe_key="k").id
    finally:
        django_connection.close()
