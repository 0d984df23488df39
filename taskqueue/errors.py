"""Errors of the queue: one class for each decision that whoever catches it takes."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

_LAST_YEAR = 9000
_LONGEST_WAIT_SECONDS = 100 * 365 * 86_400.0


class TaskQueueError(Exception):
    """Base of all errors that this package raises on purpose."""


class InvalidTask(TaskQueueError, ValueError):
    """A task cannot be enqueued as asked. ``problems`` names each field and what is wrong with it."""

    def __init__(self, task_type: str, problems: Sequence[str]) -> None:
        self.task_type = task_type
        self.problems = tuple(problems)
        super().__init__(f"{task_type!r} cannot be enqueued: " + "; ".join(self.problems))


class InvalidPayload(TaskQueueError, ValueError):
    """A payload does not fit its handler. ``problems`` names each field and what is wrong with it."""

    def __init__(self, task_type: str, problems: Sequence[str]) -> None:
        self.task_type = task_type
        self.problems = tuple(problems)
        super().__init__(f"invalid payload of {task_type!r}: " + "; ".join(self.problems))


class HandlerConfigurationError(TaskQueueError):
    """A handler is declared wrongly or twice; the process must not start."""


class WorkerLost(TaskQueueError):
    """What ended an attempt whose worker was lost; never raised, it names such an attempt's error."""


class HandlerVerdict(Exception):
    """Base of what a handler raises to end its attempt in another way than success or failure."""


class RetryLater(HandlerVerdict):
    """This attempt failed; try again after ``after`` (seconds or a timedelta) instead of the policy's backoff."""

    def __init__(self, after: float | timedelta, reason: str = "", code: str = "retry_later") -> None:
        self.after_seconds = _seconds("RetryLater", after)
        self.reason = str(reason)
        self.code = str(code)
        super().__init__(self.reason or f"try again in {self.after_seconds:g} s")


class Snooze(HandlerVerdict):
    """Nothing failed, it is too early: come back at ``until`` (an aware datetime, a timedelta or seconds from now).

    No retry is used.
    """

    def __init__(self, until: datetime | timedelta | float, reason: str = "") -> None:
        if isinstance(until, datetime) and until.tzinfo is None:
            raise ValueError("Snooze(until) needs an aware datetime; add a time zone")
        if isinstance(until, datetime) and until.year > _LAST_YEAR:
            raise ValueError(f"Snooze(until) must lie before the year {_LAST_YEAR}, got {until}")
        # In UTC, so that the code of a time zone runs here, where what it raises is the handler's failure.
        self.until: datetime | timedelta = (
            until.astimezone(UTC) if isinstance(until, datetime) else timedelta(seconds=_seconds("Snooze", until))
        )
        self.reason = str(reason)
        super().__init__(self.reason or f"snoozed until {until}")


class GiveUp(HandlerVerdict):
    """This task can never succeed: set it aside as dead-lettered with a stable ``code`` and a ``reason`` for people."""

    def __init__(self, code: str, reason: str = "") -> None:
        # What callers have at hand is often a number or an exception.
        self.code = str(code)
        self.reason = str(reason)
        super().__init__(f"{self.code}: {self.reason}" if self.reason else self.code)


def _seconds(verdict: str, wait: float | timedelta) -> float:
    seconds = wait.total_seconds() if isinstance(wait, timedelta) else float(wait)
    if not 0 <= seconds <= _LONGEST_WAIT_SECONDS:
        raise ValueError(f"{verdict} takes a wait of 0 seconds to 100 years, got {seconds:g} seconds")
    return seconds


class ReconciliationError(TaskQueueError):
    """A reconciliation, a plan of repairs or a rule cannot be used as asked. ``code`` is stable."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class RepairRefused(ReconciliationError):
    """A repair was not made: the row is not what it was when the report was written."""
