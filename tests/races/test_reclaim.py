"""A worker is lost, or only seems to be: the fence decides, and what the later claim did stands."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from taskqueue import events, store
from taskqueue.finishes import Written
from taskqueue.models import Task, TaskAttempt
from taskqueue.outcomes import Ending
from taskqueue.records import Claim
from taskqueue.reports import report_written
from tests.support.held import failed, finish_of, finishes_of, success
from tests.support.sessions import (
    DEADLINE_SECONDS,
    Connect,
    claim,
    expire_leases,
    reclaim,
    serving_of,
    wait_until_blocked,
)
from tests.support.tasks_in_state import task_in


@pytest.fixture
def lost() -> Iterator[list[dict[str, Any]]]:
    """What was said of claims that were lost."""
    heard: list[dict[str, Any]] = []

    def hear(data: dict[str, Any], **_: object) -> None:
        heard.append(data)

    events.CLAIM_LOST.signal.connect(hear)
    yield heard
    events.CLAIM_LOST.signal.disconnect(hear)


@pytest.mark.parametrize("ending", [success('{"by": "first"}'), failed()], ids=["success", "failure"])
def test_a_late_finish_loses_to_the_reclaim(connect: Connect, ending: Ending, lost: list[dict[str, Any]]) -> None:
    task = task_in("due")
    first, second = connect(), connect()
    (early,) = claim(first)
    expire_leases(second)
    (late,) = reclaim(second)

    (written,) = finishes_of(finish_of(early, ending)).write(first)
    report_written(written, worker_id="worker-a")

    assert not written.kept
    row = Task.objects.get(id=task.id)
    assert (row.status, row.attempt, row.worker_id, row.lost_count, row.retry_count) == ("running", 2, "worker-b", 1, 0)
    assert row.result is None
    assert [(said["task_id"], said["attempt"], said["move"]) for said in lost] == [(task.id, 1, ending.event.value)]
    (attempt,) = TaskAttempt.objects.filter(task=task)
    assert (attempt.attempt, attempt.outcome, attempt.worker_id) == (1, "lost", "worker-a")
    assert attempt.error_code == "worker_lost"

    (second_end,) = finishes_of(finish_of(late, success('{"by": "second"}'))).write(second)

    assert second_end.kept
    done = Task.objects.get(id=task.id)
    assert (done.status, done.attempt, done.result) == ("success", 2, {"by": "second"})


def test_a_reclaim_that_meets_a_finish_passes_over_it_and_finds_it_done(connect: Connect) -> None:
    task = task_in("due")
    first, second = connect(), connect()
    (claimed,) = claim(first)
    expire_leases(second)

    with first.transaction():
        (written,) = finishes_of(finish_of(claimed, success())).write(first)
        during = reclaim(second)
    after = reclaim(second)

    assert written.kept
    assert (during, after) == ([], [])
    row = Task.objects.get(id=task.id)
    assert (row.status, row.attempt, row.lost_count) == ("success", 1, 0)
    assert not TaskAttempt.objects.exists()


def test_a_finish_that_waits_for_a_reclaim_finds_its_claim_lost(connect: Connect) -> None:
    task_in("due", id="a")
    first, second, watcher = connect(), connect(), connect()
    (claimed,) = claim(first)
    expire_leases(second)

    with ThreadPoolExecutor(1) as pool, second.transaction():
        assert [task.attempt for task in reclaim(second)] == [2]
        write = pool.submit(_write, first, claimed)
        wait_until_blocked(watcher, first)
    (written,) = write.result(DEADLINE_SECONDS)

    assert not written.kept
    assert Task.objects.get(id="a").worker_id == "worker-b"


def test_a_renewal_that_comes_first_keeps_the_claim(connect: Connect) -> None:
    task_in("due", id="a")
    first, second = connect(), connect()
    (claimed,) = claim(first)
    expire_leases(second)

    with first.transaction():
        (renewed,) = store.renew(first, [(claimed.id, claimed.attempt)], lease_seconds=60.0)
        during = reclaim(second)

    assert renewed.moved
    assert (during, reclaim(second)) == ([], [])
    row = Task.objects.get(id="a")
    assert (row.attempt, row.worker_id, row.lost_count) == (1, "worker-a", 0)


def test_a_renewal_that_comes_after_the_reclaim_finds_its_claim_lost(connect: Connect) -> None:
    task_in("due", id="a")
    first, second = connect(), connect()
    (claimed,) = claim(first)
    expire_leases(second)
    assert reclaim(second)

    assert store.renew(first, [(claimed.id, claimed.attempt)], lease_seconds=3600.0) == []

    lease_until = Task.objects.get(id="a").lease_until
    assert lease_until is not None
    assert (lease_until - datetime.now(UTC)).total_seconds() < 100


def test_two_workers_at_once_never_take_over_the_same_task(connect: Connect) -> None:
    for n in range(20):
        task_in("running", id=f"task_{n:02}", worker_id="lost")
    one, other = connect(), connect()
    expire_leases(one)

    with one.transaction():
        mine = {task.id for task in reclaim(one, serving_of(worker_id="worker-a"))}
        theirs = {task.id for task in reclaim(other, serving_of(worker_id="worker-b"))}

    assert (len(mine), mine & theirs) == (16, set())
    assert TaskAttempt.objects.filter(outcome="lost", worker_id="lost").count() == len(mine | theirs)


def test_a_worker_never_takes_its_own_claims_for_lost(connect: Connect) -> None:
    task_in("running", id="a", worker_id="worker-b")
    connection = connect()
    expire_leases(connection)

    assert reclaim(connection) == []
    assert store.discard_crash_loops(connection, "worker-b") == []


def _write(connection: Any, claimed: Claim) -> list[Written]:
    return finishes_of(finish_of(claimed, success())).write(connection)
