"""Task types nobody handles: they wait, are reported, and fail only after an hour without anyone who knows them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskqueue import events
from taskqueue.database import Database
from taskqueue.janitor import Janitor
from taskqueue.models import QueueControl, Task, TaskAttempt, Worker
from tests.support.sessions import serving_of
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db(transaction=True)

_NOW = datetime.now(UTC)
_AN_HOUR_AGO = _NOW - timedelta(minutes=61)
_NOT_YET = _NOW - timedelta(minutes=55)


@pytest.fixture
def reported() -> Iterator[list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []

    def hear(data: dict[str, Any], **_: object) -> None:
        heard.append(data)

    events.TYPES_WAITING.signal.connect(hear)
    yield heard
    events.TYPES_WAITING.signal.disconnect(hear)


@pytest.fixture
def janitor() -> Iterator[Janitor]:
    janitor = Janitor(
        database=Database(),
        serving=serving_of("test.noop"),
        default_max_retries=10,
        outage_seconds=60.0,
        random=lambda: 0.0,
        on_failure=lambda part, error: pytest.fail(f"{part}: {error}"),
    )
    yield janitor
    janitor.close()


def test_types_that_wait_are_reported_once_and_again_when_they_change(
    janitor: Janitor, reported: list[dict[str, Any]]
) -> None:
    task_in("due", task_type="test.noop")
    task_in("scheduled", task_type="mail.later")
    task_in("due", task_type="mail.send")
    task_in("due", task_type="mail.other")
    _worker("mail.other")

    janitor.look()
    janitor.look()
    task_in("due", task_type="another")
    janitor.look()

    assert [(data["task_types"], data["unhandled"]) for data in reported] == [
        (("mail.other", "mail.send"), ("mail.send",)),
        (("another", "mail.other", "mail.send"), ("another", "mail.send")),
    ]
    assert not Task.objects.exclude(attempt=0).exists()


def test_a_type_unknown_for_less_than_an_hour_waits_at_no_cost(janitor: Janitor) -> None:
    task = task_in("due", task_type="mail.send", embargo_until=_NOT_YET)

    janitor.look()

    task.refresh_from_db()
    assert (task.status, task.attempt, task.retry_count, task.error_code) == ("pending", 0, 0, None)


def test_a_type_unknown_for_an_hour_fails_as_unregistered(janitor: Janitor) -> None:
    task = task_in("due", task_type="mail.send", embargo_until=_AN_HOUR_AGO)
    known = task_in("due", task_type="test.noop", embargo_until=_AN_HOUR_AGO)

    janitor.look()

    task.refresh_from_db()
    known.refresh_from_db()
    assert (task.status, task.retry_count, task.error_code) == ("pending", 1, "unregistered")
    assert task.message == "no live worker has handled the task type 'mail.send' for an hour"
    assert timedelta(seconds=50) < task.embargo_until - datetime.now(UTC) <= timedelta(seconds=60)
    (attempt,) = TaskAttempt.objects.all()
    assert (attempt.outcome, attempt.error_code, attempt.next_try_at) == ("failed", "unregistered", task.embargo_until)
    assert known.attempt == 0


def test_an_unregistered_task_without_retries_left_is_dead_lettered(janitor: Janitor) -> None:
    spent = task_in("due", task_type="mail.send", embargo_until=_AN_HOUR_AGO, retry_count=10)
    never = task_in("due", task_type="mail.send", embargo_until=_AN_HOUR_AGO, max_retries=0)

    janitor.look()

    for task in (spent, never):
        task.refresh_from_db()
        assert (task.status, task.error_code) == ("dead_lettered", "unregistered")
    assert set(TaskAttempt.objects.values_list("outcome", flat=True)) == {"discarded"}


def test_a_task_that_failed_as_unregistered_before_needs_no_second_hour(janitor: Janitor) -> None:
    task = task_in("retrying", task_type="mail.send", embargo_until=_NOW, error_code="unregistered")

    janitor.look()

    task.refresh_from_db()
    assert (task.retry_count, task.attempt) == (3, 3)


@pytest.mark.parametrize(
    ("ago", "stopped", "fails"),
    [
        (timedelta(0), False, False),
        (timedelta(minutes=55), False, False),
        (timedelta(minutes=55), True, False),
        (timedelta(minutes=61), False, True),
        (timedelta(minutes=61), True, True),
    ],
)
def test_an_hour_counts_from_the_last_beat_of_a_worker_that_knew_the_type(
    janitor: Janitor, ago: timedelta, stopped: bool, fails: bool
) -> None:
    task = task_in("due", task_type="mail.send", embargo_until=_AN_HOUR_AGO - timedelta(days=1))
    _worker("mail.send", beat_at=_NOW - ago, stopped_at=_NOW - ago if stopped else None)

    janitor.look()

    task.refresh_from_db()
    assert (task.error_code == "unregistered") == fails


def test_a_running_task_of_an_unknown_type_whose_worker_was_lost_long_ago_fails_too(janitor: Janitor) -> None:
    task = task_in("running", task_type="mail.send", lease_until=_AN_HOUR_AGO)

    janitor.look()

    task.refresh_from_db()
    assert (task.status, task.error_code, task.attempt) == ("pending", "unregistered", 2)
    outcomes = TaskAttempt.objects.order_by("attempt").values_list("outcome", "error_code")
    assert list(outcomes) == [("lost", "worker_lost"), ("failed", "unregistered")]


def test_a_paused_type_does_not_fail(janitor: Janitor) -> None:
    task = task_in("due", task_type="mail.send", embargo_until=_AN_HOUR_AGO)
    QueueControl.objects.create(kind="task_type", name="mail.send", paused_by="ann")

    janitor.look()

    task.refresh_from_db()
    assert (task.status, task.attempt) == ("pending", 0)


def test_more_than_a_batch_fails_in_one_round(janitor: Janitor) -> None:
    Task.objects.bulk_create(Task(id=f"t{n:03}", task_type="mail.send", embargo_until=_AN_HOUR_AGO) for n in range(250))

    janitor.look()

    assert Task.objects.filter(error_code="unregistered", retry_count=1).count() == 250


def test_workers_silent_for_a_day_are_forgotten(janitor: Janitor) -> None:
    _worker("x", id="old", beat_at=_NOW - timedelta(hours=25))
    _worker("x", id="new", beat_at=_NOW - timedelta(hours=23))

    janitor.look()

    assert list(Worker.objects.values_list("id", flat=True)) == ["new"]


def test_a_task_that_fails_as_unregistered_stays_suspected_of_its_losses(janitor: Janitor) -> None:
    task = task_in("due", task_type="mail.send", embargo_until=_AN_HOUR_AGO, lost_count=2)

    janitor.look()

    task.refresh_from_db()
    assert (task.error_code, task.lost_count) == ("unregistered", 2)


def test_what_a_round_claimed_and_could_not_settle_is_given_back_without_a_loss(janitor: Janitor) -> None:
    task_in("running", id="a", task_type="mail.gone", worker_id="worker-a/janitor")
    task_in("running", id="b", task_type="mail.gone", worker_id="worker-a")

    janitor.look()

    row = Task.objects.get(id="a")
    assert (row.status, row.retry_count, row.lost_count) == ("pending", 0, 0)
    assert TaskAttempt.objects.get(task_id="a").outcome == "released"
    assert Task.objects.get(id="b").status == "running"


def _worker(*task_types: str, **values: Any) -> None:
    Worker.objects.create(**{"id": "other", "host": "h", "pid": 1, "task_types": list(task_types), **values})
