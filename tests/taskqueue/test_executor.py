"""One attempt: whatever a handler does, its slot is free again and one ending is handed on."""

from __future__ import annotations

import asyncio
import decimal
import functools
import math
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog

from taskqueue.errors import GiveUp, RetryLater, Snooze
from taskqueue.executor import Executor
from taskqueue.handler_connections import HandlerConnections
from taskqueue.handlers import Registry, register_handler
from taskqueue.lifecycle import Event
from taskqueue.outcomes import Ending
from taskqueue.records import Claim
from taskqueue.retry import RetryPolicy
from taskqueue.running import Held, Running


class _CodeRaises(Exception):
    @property
    def code(self) -> str:
        raise OSError("the connection that knows the code is closed")


class _TextEnds(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class _Nameless(GiveUp):
    def __init__(self) -> None:  # forgets its base, so that it has neither code nor reason
        pass


class _OwnPolicy(RetryPolicy):
    """``jitter`` chooses what it does wrong."""

    def delay_seconds(self, retry_count: int, random: Callable[[], float]) -> float:
        if self.jitter == 0:
            raise ZeroDivisionError
        return math.nan if self.jitter == 1 else -1.0


def _run(function: Callable[..., Any], *, retry: RetryPolicy | None = None, told_to_stop: bool = False) -> Ending:
    handlers = Registry()
    register_handler("test", function, retry=retry, into=handlers)
    running = Running(1)
    endings: list[Ending] = []
    executor = Executor(
        running=running,
        connections=HandlerConnections(),
        default_max_retries=10,
        deliver=lambda held, ending: endings.append(ending),
        freed=lambda: None,
    )
    held = Held(claim=_claim(), handler=handlers.handlers["test"], deadline=math.inf, claimed_at=0.0)
    running.add(held)
    if told_to_stop:
        held.interrupt()

    executor(held)

    assert running.free == 1
    (ending,) = endings
    return ending


def _claim() -> Claim:
    return Claim(
        id="task_1",
        task_type="test",
        payload="null",
        queue="default",
        priority=0,
        retry_count=0,
        max_retries=None,
        attempt=1,
        lost_count=0,
        correlation_id="",
        waited_seconds=0.0,
    )


def _raising(error: BaseException) -> Callable[[Any], Any]:
    def function(payload: Any) -> None:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "event", "code"),
    [
        (GiveUp(404, ValueError("gone")), Event.DISCARD, "404"),  # type: ignore[arg-type]
        (RetryLater(1.0, reason=ValueError("busy"), code=None), Event.FAIL, "None"),  # type: ignore[arg-type]
        (Snooze(1.0, reason=ValueError("early")), Event.SNOOZE, None),  # type: ignore[arg-type]
        (_CodeRaises(), Event.FAIL, "error"),
        (_TextEnds(), Event.FAIL, "error"),
        (_Nameless(), Event.FAIL, "error"),
        (ExceptionGroup("many", [_TextEnds(), _CodeRaises()]), Event.FAIL, "error"),
        (SystemExit(3), Event.FAIL, "error"),
        (KeyboardInterrupt(), Event.FAIL, "error"),
        (GeneratorExit(), Event.FAIL, "error"),
        (MemoryError(), Event.FAIL, "error"),
        (asyncio.CancelledError(), Event.FAIL, "timeout"),
    ],
)
def test_any_exception_ends_the_attempt_and_frees_the_slot(
    error: BaseException, event: Event, code: str | None
) -> None:
    ending = _run(_raising(error))

    assert (ending.event, ending.error_code) == (event, code)


def test_an_error_that_cannot_be_read_is_a_failure_that_names_its_class() -> None:
    assert "_CodeRaises" in str(_run(_raising(_CodeRaises())).message)


@pytest.mark.parametrize("fault", [0.0, 0.5, 1.0])
def test_a_retry_policy_that_says_no_time_is_replaced_by_the_default_backoff(fault: float) -> None:
    ending = _run(_raising(ValueError()), retry=_OwnPolicy(jitter=fault))

    assert ending.event is Event.FAIL
    assert 60 <= ending.delay_seconds <= 66


def test_a_snooze_is_handed_on_in_utc() -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)

    ending = _run(_raising(Snooze(until)))

    assert ending.embargo_until == until
    assert ending.embargo_until is not None
    assert ending.embargo_until.utcoffset() == timedelta(0)


def test_what_a_handler_sets_for_its_thread_ends_with_it() -> None:
    precision = decimal.getcontext().prec

    def careless(payload: Any) -> None:
        decimal.getcontext().prec = 2
        structlog.contextvars.bind_contextvars(customer="somebody else's")

    def next_one(payload: Any) -> dict[str, object]:
        seen = structlog.contextvars.get_contextvars()
        return {"prec": decimal.getcontext().prec, "keys": sorted(seen)}

    results: list[str | None] = []

    def both_in_one_thread() -> None:
        _run(careless)
        results.append(_run(next_one).result)

    thread = threading.Thread(target=both_in_one_thread)
    thread.start()
    thread.join(20)

    assert results == [f'{{"prec": {precision}, "keys": ["correlation_id", "task_id"]}}']


def test_an_async_handler_that_was_told_to_stop_before_it_began_is_cancelled() -> None:
    async def endless(payload: Any) -> None:
        await asyncio.sleep(600)

    assert _run(endless, told_to_stop=True).error_code == "timeout"


def test_an_async_function_is_run_also_through_partial() -> None:
    async def double(factor: int, payload: Any) -> int:
        return 2 * factor

    assert _run(functools.partial(double, 21)).result == "42"


@pytest.mark.parametrize("begun", [True, False])
def test_the_slot_of_an_attempt_that_no_longer_counts_is_announced(begun: bool) -> None:
    running = Running(1)
    told: list[str] = []
    handlers = Registry()
    register_handler("test", lambda payload: running.give_back(held), into=handlers)
    held = Held(claim=_claim(), handler=handlers.handlers["test"], deadline=math.inf, claimed_at=0.0)
    running.add(held)
    if not begun:
        running.give_back(held)

    Executor(
        running=running,
        connections=HandlerConnections(),
        default_max_retries=10,
        deliver=lambda held, ending: told.append("an ending"),
        freed=lambda: told.append("a free slot"),
    )(held)

    assert told == ["a free slot"]
    assert (running.free, running.stuck) == (1, 0)
