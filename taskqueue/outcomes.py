"""What an attempt came to, and which move follows from it. Pure: a handler's return or exception in, a decision out."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from taskqueue.errors import GiveUp, InvalidPayload, RetryLater, Snooze
from taskqueue.lifecycle import Event
from taskqueue.retry import LONGEST_SECONDS, RetryPolicy, retries_left
from taskqueue.text import class_path, message_of, storable, storable_json, traceback_of

RESULT_LIMIT = 1_000_000


class UnserialisableResult(Exception):
    """A handler returned something that cannot be stored as JSON."""


class HandlerTimeout(Exception):
    """A handler's time was up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How an attempt ends. ``event`` is the move; a delay or an instant says when a pending task is due again."""

    event: Event
    result: str | None = None
    message: str | None = None
    error_code: str | None = None
    error_class: str | None = None
    traceback: str | None = None
    delay_seconds: float = 0.0
    embargo_until: datetime | None = None
    timed_out: bool = False


_DONE = Ending(event=Event.COMPLETE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tries:
    """What decides whether a failure may be tried again."""

    retry_count: int
    task_max_retries: int | None
    policy: RetryPolicy
    default_max_retries: int
    random: Callable[[], float]

    @property
    def left(self) -> bool:
        return retries_left(
            retry_count=self.retry_count,
            task=self.task_max_retries,
            policy=self.policy.max_retries,
            default=self.default_max_retries,
        )


def ending_of_return(value: Any) -> Ending:
    """Raises ``UnserialisableResult`` when the value is not JSON that PostgreSQL can store."""
    if value is None:
        return _DONE
    try:
        text = storable_json(value)
    except ValueError as error:
        raise UnserialisableResult(f"the result {error}") from error
    if len(text) > RESULT_LIMIT:
        raise UnserialisableResult(f"the result has {len(text)} characters of JSON; at most {RESULT_LIMIT} are stored")
    return Ending(event=Event.COMPLETE, result=text)


def ending_of_error(error: BaseException, tries: Tries) -> Ending:
    """Any exception ends the attempt, and never the worker: ``SystemExit`` and its like are failures too."""
    match error:
        case GiveUp():
            return _discard(error, error.code, error.reason or message_of(error))
        case Snooze():
            delay, instant = _when(error.until)
            return Ending(
                event=Event.SNOOZE,
                message=storable(error.reason) if error.reason else None,
                delay_seconds=delay,
                embargo_until=instant,
            )
        case InvalidPayload():
            return _discard(error, "invalid_payload", message_of(error))
        case RetryLater():
            return failure(error, tries, code=error.code, delay_seconds=max(error.after_seconds, 0.0))
        case HandlerTimeout() | asyncio.CancelledError():
            return failure(error, tries, code="timeout", timed_out=isinstance(error, HandlerTimeout))
        case UnserialisableResult():
            return failure(error, tries, code="unserialisable_result")
        case _:
            return failure(error, tries, code=_code_of(error))


def unreadable_error(error: BaseException, trouble: BaseException, tries: Tries) -> Ending:
    """A failure in place of an ending that could not be made: reading the error raised ``trouble``."""
    ending = failure(trouble, tries, code="error")
    return replace(ending, message=storable(f"{type(error).__name__}, of which no more can be told: {ending.message}"))


def failure(
    error: BaseException,
    tries: Tries,
    *,
    code: str,
    delay_seconds: float | None = None,
    timed_out: bool = False,
) -> Ending:
    again = tries.left
    if delay_seconds is None:
        delay_seconds = _backoff(tries)
    return Ending(
        event=Event.FAIL if again else Event.EXHAUST,
        message=message_of(error),
        error_code=storable(code, 200),
        error_class=class_path(error),
        traceback=traceback_of(error),
        delay_seconds=delay_seconds if again else 0.0,
        timed_out=timed_out,
    )


def _backoff(tries: Tries) -> float:
    """What the policy says. One of the handler's own may raise or say no number; the failure is written anyway."""
    try:
        delay_seconds = float(tries.policy.delay_seconds(tries.retry_count, tries.random))
    except Exception:  # noqa: BLE001 - see above
        delay_seconds = math.nan
    if 0 <= delay_seconds <= 2 * LONGEST_SECONDS:
        return delay_seconds
    return RetryPolicy().delay_seconds(tries.retry_count, tries.random)


def _discard(error: BaseException, code: str, reason: str) -> Ending:
    return Ending(
        event=Event.DISCARD,
        message=storable(reason),
        error_code=storable(code, 200),
        error_class=class_path(error),
    )


def _when(until: datetime | timedelta) -> tuple[float, datetime | None]:
    return (max(until.total_seconds(), 0.0), None) if isinstance(until, timedelta) else (0.0, until)


def _code_of(error: BaseException) -> str:
    code = getattr(error, "code", None)
    # SystemExit carries an exit status under the same name; only words are codes.
    return code if isinstance(code, str) and code else "error"
