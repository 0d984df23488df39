"""Payloads and texts at the edge of what JSON, Python and PostgreSQL can hold: each task ends, beside all others."""

from __future__ import annotations

import math
from typing import Any

import pydantic
import pytest
from django.db import connection

from taskqueue.handlers import Registry, TaskContext, register_handler
from taskqueue.models import Task, TaskAttempt
from tests.support.in_process import work_until_idle
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db(transaction=True)

_UNREADABLE = {
    "digits": "(repeat('7', 5000))::jsonb",
    "exponent": "'1e100000'::jsonb",
    "fraction of digits": "('{\"n\": [' || repeat('9', 5000) || ']}')::jsonb",
}
_DEEP = "(repeat('[', 6000) || repeat(']', 6000))::jsonb"


class _Amount(pydantic.BaseModel):
    amount: int


@pytest.fixture
def handlers() -> Registry:
    """``test.noop`` takes anything; ``test.amount`` wants an object with an amount."""
    handlers = Registry()
    register_handler("test.noop", lambda payload: None, into=handlers)
    register_handler("test.amount", lambda payload: payload.amount * 2, payload=_Amount, into=handlers)
    return handlers


@pytest.mark.parametrize("expression", _UNREADABLE.values(), ids=list(_UNREADABLE))
def test_a_payload_that_python_cannot_read_is_discarded_and_stops_nobody_else(
    handlers: Registry, expression: str
) -> None:
    _insert("bad", "test.noop", expression)
    for n in range(20):
        task_in("due", id=f"good_{n}")

    work_until_idle(handlers)

    # Not through the model, which would have to read the payload.
    (status, code, message) = Task.objects.values_list("status", "error_code", "message").get(id="bad")
    assert (status, code) == ("dead_lettered", "invalid_payload")
    assert "Python cannot read this JSON" in (message or "")
    assert Task.objects.filter(status="success").count() == 20
    (attempt,) = TaskAttempt.objects.all()
    assert (attempt.task_id, attempt.outcome, attempt.error_code) == ("bad", "discarded", "invalid_payload")


def test_a_deeply_nested_payload_ends_one_way_or_the_other_and_stops_nobody_else(handlers: Registry) -> None:
    """Whether Python can read it depends on its version; that it must not crash or hang does not."""
    _insert("deep", "test.noop", _DEEP)
    task_in("due", id="good")

    work_until_idle(handlers)

    assert Task.objects.values_list("status", flat=True).get(id="deep") in ("success", "dead_lettered")
    assert Task.objects.values_list("status", flat=True).get(id="good") == "success"


def test_a_payload_that_does_not_fit_is_discarded_naming_the_field_and_not_the_value(handlers: Registry) -> None:
    task_in("due", id="bad", task_type="test.amount", payload={"amount": "hunter2"})
    task_in("due", id="none", task_type="test.amount", payload=None)
    task_in("due", id="good", task_type="test.amount", payload={"amount": 21})

    work_until_idle(handlers)

    bad, none, good = (Task.objects.get(id=id) for id in ("bad", "none", "good"))
    assert (bad.status, bad.error_code, bad.retry_count) == ("dead_lettered", "invalid_payload", 0)
    assert "amount: Input should be a valid integer" in (bad.message or "")
    assert "hunter2" not in (bad.message or "")
    assert none.error_code == "invalid_payload"
    assert (good.status, good.result) == ("success", 42)


def _raising(error: BaseException) -> Any:
    def handler(payload: Any) -> None:
        raise error

    return handler


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("handler", "code", "message"),
    [
        (_raising(ValueError("a\x00b\ud800c")), "error", "ValueError: a\ufffdb\ufffdc"),
        (_raising(ValueError("ä" * 25_000_000)), "error", "ValueError: ää"),
        (_raising(_Mute()), "error", "_Mute: (its str() raised RuntimeError)"),
        (_raising(SystemExit(0)), "error", "SystemExit: 0"),
        (_raising(KeyboardInterrupt()), "error", "KeyboardInterrupt"),
        (lambda payload: {"n": math.nan}, "unserialisable_result", "UnserialisableResult"),
        (lambda payload: object(), "unserialisable_result", "UnserialisableResult"),
        (lambda payload: "x" * 2_000_000, "unserialisable_result", "UnserialisableResult"),
        (lambda payload: {"nul": "\x00"}, "unserialisable_result", "UnserialisableResult"),
        (lambda payload: {"a": 10**200_000}, "unserialisable_result", "UnserialisableResult"),
        (lambda payload: (yield), "unserialisable_result", "UnserialisableResult"),
    ],
    ids=["nul", "50 MB", "mute", "exit", "interrupt", "nan", "object", "big", "nul result", "digits", "generator"],
)
def test_whatever_a_handler_does_its_failure_is_written(handler: Any, code: str, message: str) -> None:
    handlers = Registry()
    register_handler("test.noop", handler, into=handlers)
    task_in("due", id="a", max_retries=0)

    work_until_idle(handlers)

    row = Task.objects.get(id="a")
    assert (row.status, row.error_code, row.result) == ("dead", code, None)
    assert (row.message or "").startswith(message)
    (attempt,) = TaskAttempt.objects.all()
    assert (attempt.attempt, attempt.outcome, attempt.error_code, attempt.message) == (1, "failed", code, row.message)
    assert attempt.traceback


def test_a_success_after_failures_clears_the_message_and_keeps_the_attempts() -> None:
    def third_time(payload: Any, context: TaskContext) -> int:
        if context.attempt < 3:
            raise ValueError(f"attempt {context.attempt}")
        return context.retry_count

    handlers = Registry()
    register_handler("test.noop", third_time, into=handlers)
    task_in("due", id="a")
    for _ in range(3):
        work_until_idle(handlers)
        Task.objects.filter(status="pending").update(embargo_until=Task.objects.get(id="a").created_at)

    row = Task.objects.get(id="a")
    assert (row.status, row.result, row.attempt, row.retry_count) == ("success", 2, 3, 2)
    assert (row.message, row.error_code) == (None, None)
    messages = TaskAttempt.objects.order_by("attempt").values_list("attempt", "message")
    assert list(messages) == [(1, "ValueError: attempt 1"), (2, "ValueError: attempt 2")]


def _insert(id: str, task_type: str, payload: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO tasks (id, task_type, payload) VALUES (%s, %s, {payload})", [id, task_type])  # noqa: S608
