"""Which ending follows from what a handler returned or raised."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskqueue.errors import GiveUp, InvalidPayload, RetryLater, Snooze
from taskqueue.lifecycle import Event
from taskqueue.outcomes import (
    RESULT_LIMIT,
    HandlerTimeout,
    UnserialisableResult,
    ending_of_error,
    ending_of_return,
)
from taskqueue.retry import RetryPolicy
from taskqueue.text import MESSAGE_LIMIT, TRACEBACK_LIMIT
from tests.support.held import tries_of

_UNTIL = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("value", [{"a": [1, "ä", None]}, [], "", 0, False, 1.5, "x" * (RESULT_LIMIT - 2)])
def test_a_json_value_completes_and_is_the_result(value: Any) -> None:
    ending = ending_of_return(value)
    assert ending.event is Event.COMPLETE
    assert json.loads(ending.result or "") == value


def test_nothing_returned_completes_without_a_result() -> None:
    ending = ending_of_return(None)
    assert (ending.event, ending.result) == (Event.COMPLETE, None)


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "is not JSON"),
        ({"x": float("-inf")}, "is not JSON"),
        ({1, 2}, "is not JSON"),
        (object(), "is not JSON"),
        (b"bytes", "is not JSON"),
        (_UNTIL, "is not JSON"),
        ({(1, 2): 3}, "is not JSON"),
        (_circle(), "is not JSON"),
        ("lone \ud800", "is not JSON"),
        ({"nul": "a\x00b"}, "NUL"),
        ("x" * RESULT_LIMIT, "at most"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_a_value_that_cannot_be_stored_is_a_failure_of_its_own_code(value: Any, why: str) -> None:
    with pytest.raises(UnserialisableResult, match=why) as raised:
        ending_of_return(value)

    ending = ending_of_error(raised.value, tries_of())
    assert (ending.event, ending.error_code) == (Event.FAIL, "unserialisable_result")


def test_a_failure_is_tried_again_after_the_backoff() -> None:
    ending = ending_of_error(ValueError("no"), tries_of(retry_count=2))
    assert (ending.event, ending.error_code, ending.delay_seconds) == (Event.FAIL, "error", 240)
    assert ending.message == "ValueError: no"
    assert ending.traceback is not None
    assert not ending.timed_out


@pytest.mark.parametrize(
    ("retry_count", "max_retries", "policy", "event"),
    [
        (9, None, RetryPolicy(), Event.FAIL),
        (10, None, RetryPolicy(), Event.EXHAUST),
        (2, None, RetryPolicy(max_retries=2), Event.EXHAUST),
        (2, 3, RetryPolicy(max_retries=2), Event.FAIL),
        (0, 0, RetryPolicy(max_retries=2), Event.EXHAUST),
        (99, 0, RetryPolicy(), Event.EXHAUST),
    ],
)
def test_the_last_failure_exhausts(
    retry_count: int, max_retries: int | None, policy: RetryPolicy, event: Event
) -> None:
    tries = tries_of(retry_count=retry_count, max_retries=max_retries, policy=policy)
    for error in (ValueError(), RetryLater(5.0), HandlerTimeout(), SystemExit(0)):
        ending = ending_of_error(error, tries)
        assert ending.event is event
        assert (ending.delay_seconds > 0) == (event is Event.FAIL)


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit("bye"), KeyboardInterrupt(), GeneratorExit()])
def test_what_would_end_a_program_is_a_failed_attempt(error: BaseException) -> None:
    ending = ending_of_error(error, tries_of())
    assert ending.event is Event.FAIL
    assert (ending.message or "").startswith(type(error).__name__)


def test_retry_later_waits_as_long_as_it_says_and_uses_a_retry() -> None:
    ending = ending_of_error(RetryLater(timedelta(minutes=7), reason="busy", code="http_503"), tries_of())
    assert (ending.event, ending.delay_seconds, ending.error_code) == (Event.FAIL, 420, "http_503")
    assert "busy" in (ending.message or "")


@pytest.mark.parametrize(
    ("until", "delay", "instant"), [(90, 90.0, None), (timedelta(hours=1), 3600.0, None), (_UNTIL, 0.0, _UNTIL)]
)
def test_a_snooze_waits_without_an_error_even_when_no_retry_is_left(
    until: Any, delay: float, instant: datetime | None
) -> None:
    ending = ending_of_error(Snooze(until, reason="too early"), tries_of(retry_count=99))
    assert (ending.event, ending.delay_seconds, ending.embargo_until) == (Event.SNOOZE, delay, instant)
    assert (ending.message, ending.error_code, ending.traceback) == ("too early", None, None)


def test_giving_up_discards_with_code_and_reason_whatever_retries_are_left() -> None:
    ending = ending_of_error(GiveUp("no_such_thing", "it is not there"), tries_of())
    assert (ending.event, ending.error_code, ending.message) == (Event.DISCARD, "no_such_thing", "it is not there")


def test_an_invalid_payload_is_discarded() -> None:
    ending = ending_of_error(InvalidPayload("mail.send", ["to: Field required"]), tries_of())
    assert (ending.event, ending.error_code) == (Event.DISCARD, "invalid_payload")
    assert "to: Field required" in (ending.message or "")


@pytest.mark.parametrize(("error", "timed_out"), [(HandlerTimeout("late"), True), (asyncio.CancelledError(), False)])
def test_a_timeout_has_its_own_code(error: BaseException, timed_out: bool) -> None:
    ending = ending_of_error(error, tries_of())
    assert (ending.event, ending.error_code, ending.timed_out) == (Event.FAIL, "timeout", timed_out)


class _Coded(Exception):
    code: Any = "card_declined"


def test_an_error_s_own_code_is_kept_when_it_is_a_word() -> None:
    assert ending_of_error(_Coded(), tries_of()).error_code == "card_declined"
    for code in (404, None, "", b"x"):
        error = _Coded()
        error.code = code
        assert ending_of_error(error, tries_of()).error_code == "error"


@pytest.mark.parametrize(
    "error", [ValueError("ä" * 25_000_000), ValueError("a\x00b\ud800"), GiveUp("x\x00" * 500, "y\ud800" * 50_000)]
)
def test_what_is_kept_of_any_error_is_short_and_storable(error: BaseException) -> None:
    ending = ending_of_error(error, tries_of())
    for text, limit in (
        (ending.message, MESSAGE_LIMIT),
        (ending.error_code, 200),
        (ending.traceback or "", TRACEBACK_LIMIT),
    ):
        assert text is not None
        assert "\x00" not in text
        assert len(text.encode()) <= limit


@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), 10**12, timedelta(days=-1)])
def test_a_wait_that_makes_no_sense_is_an_error_where_it_is_asked_for(wait: Any) -> None:
    with pytest.raises(ValueError, match="wait of 0 seconds to 100 years"):
        RetryLater(wait)
    with pytest.raises(ValueError, match="wait of 0 seconds to 100 years"):
        Snooze(wait)


@pytest.mark.parametrize("until", [datetime(2030, 1, 1), datetime(9999, 12, 31, tzinfo=UTC)])  # noqa: DTZ001
def test_a_snooze_until_no_instant_of_the_calendar_is_an_error(until: datetime) -> None:
    with pytest.raises(ValueError, match="Snooze"):
        Snooze(until)
