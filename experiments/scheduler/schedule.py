"""When each maintenance job of an experiment is next due, and why: pure functions of what is stored.

Nothing is queued. ``sql/due.sql`` says the same for all experiments at once; a property test holds the two equal.
All instants are aware; durations are elapsed time, so a change of the clocks neither skips nor doubles a run.
"""

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from experiments.kinds import ExperimentState, ExperimentType, Job

SNAPSHOTS_BEGIN_BEFORE_START = timedelta(days=1)
SNAPSHOTS_END_AFTER_END = timedelta(days=1)
PULLS_END_AFTER_END = timedelta(days=8)
FIRST_BACKOFF = timedelta(minutes=5)
LONGEST_AUTOFAIL_BACKOFF = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """Time from the start of one successful run to the next."""

    snapshot: timedelta = timedelta(hours=3)
    pull: timedelta = timedelta(hours=4)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What the schedule needs to know of an experiment and its draws."""

    experiment_type: ExperimentType
    state: ExperimentState
    start_at: datetime
    end_at: datetime
    enable_autofail: bool
    autofail_window: timedelta
    oldest_pending_draw_at: datetime | None
    snapshot_requested_at: datetime | None
    """The newest snapshot row that somebody inserted as ``pending``."""


@dataclass(frozen=True, kw_only=True)
class History:
    """What has been done for one job of an experiment. ``failures`` are those since the last success."""

    succeeded_at: datetime | None = None
    failures: int = 0
    failed_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Due:
    """``at`` is None when the job is not due again as things stand. An ``at`` in the past means: now."""

    at: datetime | None
    reason: str


def next_due(job: Job, subject: Subject, history: History, intervals: Intervals, *, now: datetime) -> Due:
    """When ``job`` is next due. The caller sees to it that one experiment has one run at a time."""
    if not job.applies_to(subject.experiment_type):
        return _never(f"{job} is not for experiments of type {subject.experiment_type}")
    if subject.state is not ExperimentState.COMMITTED:
        return _never(f"the experiment is {subject.state}, not committed")
    subject, history, now = _in_utc(subject), _in_utc(history), now.astimezone(UTC)
    match job:
        case Job.SNAPSHOT:
            return _snapshot(subject, history, intervals, now)
        case Job.DWH_PULL:
            return _pull(subject, history, intervals, now)
        case Job.AUTOFAIL:
            return _autofail(subject, history)


def retry_at(history: History, longest: timedelta) -> datetime | None:
    """When a failed job is tried again: 5 minutes, doubled with each further failure, at most ``longest``."""
    if history.failed_at is None or history.failures == 0:
        return None
    # Beyond this exponent every interval is passed, and a timedelta cannot hold the product.
    backoff = FIRST_BACKOFF * (1 << min(history.failures - 1, 20))
    return history.failed_at + min(backoff, longest)


def _in_utc[Value: (Subject, History)](value: Value) -> Value:
    """Python adds durations to the clock on the wall, which is not elapsed time in a zone that changes its clocks."""
    held: dict[str, Any] = {field.name: getattr(value, field.name) for field in fields(value)}
    instants: dict[str, Any] = {name: at.astimezone(UTC) for name, at in held.items() if isinstance(at, datetime)}
    return replace(value, **instants)


def _snapshot(subject: Subject, history: History, intervals: Intervals, now: datetime) -> Due:
    retry = retry_at(history, intervals.snapshot)
    requested = subject.snapshot_requested_at
    if requested is not None:
        if retry is None or (history.failed_at is not None and requested > history.failed_at):
            return Due(at=requested, reason="somebody asked for a snapshot")
        return Due(at=retry, reason=f"somebody asked for a snapshot; {_failed(history)}")
    begins = subject.start_at - SNAPSHOTS_BEGIN_BEFORE_START
    ends = subject.end_at + SNAPSHOTS_END_AFTER_END
    if retry is not None:
        return _within(begins, retry, ends, now, _failed(history))
    if history.succeeded_at is None:
        return _within(begins, begins, ends, now, "there is no snapshot yet")
    return _within(begins, history.succeeded_at + intervals.snapshot, ends, now, "its interval since the last one")


def _pull(subject: Subject, history: History, intervals: Intervals, now: datetime) -> Due:
    oldest = subject.oldest_pending_draw_at
    if oldest is None:
        return _never("no draw waits for an outcome")
    ends = subject.end_at + PULLS_END_AFTER_END
    retry = retry_at(history, intervals.pull)
    if retry is not None:
        return _within(oldest, retry, ends, now, _failed(history))
    if history.succeeded_at is None:
        return _within(oldest, oldest, ends, now, "draws wait for outcomes, and none were pulled yet")
    return _within(oldest, history.succeeded_at + intervals.pull, ends, now, "its interval since the last one")


def _autofail(subject: Subject, history: History) -> Due:
    if not subject.enable_autofail:
        return _never("the experiment does not fail draws by itself (enable_autofail)")
    oldest = subject.oldest_pending_draw_at
    if oldest is None:
        return _never("no draw waits for an outcome")
    expires = oldest + subject.autofail_window
    retry = retry_at(history, LONGEST_AUTOFAIL_BACKOFF)
    if retry is not None and retry > expires:
        return Due(at=retry, reason=_failed(history))
    return Due(at=expires, reason="the time of the oldest draw without an outcome is up then")


def _within(begins: datetime, at: datetime, ends: datetime, now: datetime, reason: str) -> Due:
    """``at``, but not before ``begins``, and never once ``ends`` has passed."""
    at = max(begins, at)
    if max(at, now) > ends:
        return _never(f"its time ended at {ends.isoformat()}")
    return Due(at=at, reason=reason)


def _failed(history: History) -> str:
    times = "once" if history.failures == 1 else f"{history.failures} times"
    return f"it failed {times} in a row and waits before it tries again"


def _never(reason: str) -> Due:
    return Due(at=None, reason=reason)
