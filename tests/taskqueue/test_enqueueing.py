"""Enqueueing one task: what is asked for is stored, what cannot be is named field by field, nothing is half done."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pydantic
import pytest
from django.db import transaction

from taskqueue.errors import InvalidTask
from taskqueue.handlers import Registry, register_handler
from taskqueue.models import Task
from taskqueue.operations import NewTask, enqueue, enqueue_many
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db


class _Mail(pydantic.BaseModel):
    to: str
    at: datetime | None = None


@pytest.fixture
def handlers() -> Registry:
    handlers = Registry()
    register_handler("mail.send", lambda payload: None, payload=_Mail, queue="mail", into=handlers)
    return handlers


def test_a_task_is_stored_as_asked() -> None:
    task = enqueue(
        "test.noop",
        {"text": "ä\u2028", "list": [1, 2.5, None, True]},
        priority=-5,
        queue="slow",
        dedupe_key="key with blanks",
        max_retries=0,
        correlation_id="order-42",
    )

    row = Task.objects.get()
    assert row == task
    assert (row.task_type, row.payload) == ("test.noop", {"text": "ä\u2028", "list": [1, 2.5, None, True]})
    assert (row.priority, row.queue, row.dedupe_key, row.max_retries) == (-5, "slow", "key with blanks", 0)
    assert (row.correlation_id, row.status, row.attempt) == ("order-42", "pending", 0)
    assert row.embargo_until == row.created_at


def test_no_payload_is_null_and_an_empty_one_is_not() -> None:
    assert enqueue("test.noop").payload is None
    assert Task.objects.filter(payload__isnull=True).count() == 1
    empty: list[Any] = [{}, [], "", 0, False]
    assert [enqueue("test.noop", value).payload for value in empty] == empty


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(seconds=90)])
def test_a_delay_counts_from_now_by_the_database_s_clock(delay: Any) -> None:
    task = enqueue("test.noop", delay=delay)
    assert task.embargo_until - task.created_at == timedelta(seconds=90)


def test_an_instant_of_any_time_zone_is_kept() -> None:
    instant = datetime(2027, 3, 28, 3, 30, tzinfo=UTC)
    shifted = instant.astimezone(datetime.now().astimezone().tzinfo)
    assert enqueue("test.noop", run_at=shifted).embargo_until == instant
    past = enqueue("test.noop", run_at=datetime(1999, 1, 1, tzinfo=UTC))
    assert past.embargo_until < past.created_at


_BAD: list[tuple[str, Any]] = [
    ("task_type", ""),
    ("task_type", None),
    ("task_type", []),
    ("task_type", "x" * 201),
    ("task_type", "a\x00b"),
    ("queue", ""),
    ("queue", "\ud800"),
    ("queue", 7),
    ("priority", 32_768),
    ("priority", -32_769),
    ("priority", 1.5),
    ("priority", True),
    ("priority", "high"),
    ("max_retries", -1),
    ("max_retries", 2**31),
    ("dedupe_key", ""),
    ("dedupe_key", "x" * 1_001),
    ("dedupe_key", "line\nbreak"),
    ("correlation_id", ""),
    ("correlation_id", "x" * 201),
    ("delay", -1),
    ("delay", float("nan")),
    ("delay", float("inf")),
    ("delay", timedelta(days=40_000)),
    ("delay", "5"),
    ("delay", object()),
    ("run_at", datetime(2030, 1, 1)),  # noqa: DTZ001 - the fault under test
    ("run_at", datetime(9999, 1, 1, tzinfo=UTC)),
    ("run_at", date(2030, 1, 1)),
    ("run_at", "2030-01-01T00:00:00Z"),
    ("payload", {1, 2}),
    ("payload", object()),
    ("payload", float("nan")),
    ("payload", {"text": "a\x00b"}),
    ("payload", "\udfff"),
]


@pytest.mark.parametrize(("field", "value"), _BAD, ids=[f"{field}-{n}" for n, (field, _) in enumerate(_BAD)])
def test_a_field_that_cannot_be_is_named_and_nothing_is_stored(field: str, value: Any) -> None:
    with pytest.raises(InvalidTask) as refused:
        enqueue(**{"task_type": "test.noop", field: value})

    assert [problem.partition(":")[0] for problem in refused.value.problems] == [field]
    with pytest.raises(InvalidTask):
        enqueue_many([NewTask(task_type="test.noop"), NewTask(**{"task_type": "test.noop", field: value})])
    assert not Task.objects.exists()


def test_all_fields_that_cannot_be_are_named_together(handlers: Registry) -> None:
    with pytest.raises(InvalidTask) as refused:
        enqueue(
            "mail.send",
            {"to": 7, "at": "never"},
            delay=-1,
            run_at=datetime(2030, 1, 1, tzinfo=UTC),
            priority=10**6,
            queue="",
            dedupe_key="",
            max_retries=-1,
            correlation_id="",
            handlers=handlers,
        )

    assert {problem.partition(":")[0] for problem in refused.value.problems} == {
        "queue",
        "dedupe_key",
        "correlation_id",
        "priority",
        "max_retries",
        "delay",
        "payload.to",
        "payload.at",
    }
    assert str(refused.value).startswith("'mail.send' cannot be enqueued: ")


def test_a_payload_is_judged_by_its_handler_and_stored_as_given(handlers: Registry) -> None:
    task = enqueue("mail.send", {"to": "ann", "at": "2026-12-01T00:00:00Z"}, handlers=handlers)

    assert (task.payload, task.queue) == ({"to": "ann", "at": "2026-12-01T00:00:00Z"}, "mail")
    assert enqueue("mail.send", {"to": "ann"}, queue="other", handlers=handlers).queue == "other"


def test_a_payload_may_be_the_declared_model_itself(handlers: Registry) -> None:
    mail = _Mail(to="ann", at=datetime(2026, 12, 1, tzinfo=UTC))

    task = enqueue("mail.send", mail, handlers=handlers)
    (id,) = enqueue_many([NewTask(task_type="mail.send", payload=mail)], handlers=handlers)

    assert task.payload == Task.objects.get(id=id).payload == {"to": "ann", "at": "2026-12-01T00:00:00Z"}


def test_a_missing_payload_of_a_type_that_needs_one_is_refused(handlers: Registry) -> None:
    with pytest.raises(InvalidTask, match="payload"):
        enqueue("mail.send", handlers=handlers)


def test_what_is_rolled_back_was_never_queued() -> None:
    with pytest.raises(RuntimeError, match="no"), transaction.atomic():
        enqueue("test.noop")
        enqueue("test.noop", dedupe_key="k")
        enqueue_many([NewTask(task_type="test.noop"), NewTask(task_type="test.noop", dedupe_key="l")])
        raise RuntimeError("no")

    assert not Task.objects.exists()


def test_a_pending_task_with_the_key_is_returned_unchanged() -> None:
    first = enqueue("test.noop", {"n": 1}, dedupe_key="k", priority=3)

    again = enqueue("test.other", {"n": 2}, dedupe_key="k", delay=60)

    assert again == first
    again.refresh_from_db()
    assert (again.task_type, again.payload, again.priority) == ("test.noop", {"n": 1}, 3)
    assert Task.objects.count() == 1


@pytest.mark.parametrize("state", ["running", "success", "dead", "dead_lettered"])
def test_a_task_that_waits_no_longer_leaves_its_key_free(state: str) -> None:
    task_in(state, dedupe_key="k")

    task = enqueue("test.noop", dedupe_key="k")

    assert (task.status, Task.objects.filter(dedupe_key="k").count()) == ("pending", 2)


def test_enqueue_many_keeps_the_order_and_the_keys() -> None:
    held = enqueue("test.noop", dedupe_key="held")

    ids = enqueue_many(
        NewTask(task_type="test.noop", payload=n, dedupe_key=key)
        for n, key in enumerate([None, "held", "twice", None, "twice"])
    )

    assert ids[1] == held.id
    assert ids[2] == ids[4]
    assert [Task.objects.get(id=id).payload for id in ids] == [0, None, 2, 3, 2]
    assert Task.objects.count() == 4
