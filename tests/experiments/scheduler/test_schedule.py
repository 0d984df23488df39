"""The table of maintenance jobs, cell by cell, one second before and after each of its bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from experiments.kinds import ExperimentState, ExperimentType, Job
from experiments.scheduler.schedule import Due, History, Intervals, Subject, next_due

_START = datetime(2026, 3, 10, 9, tzinfo=UTC)
_END = datetime(2026, 3, 20, 9, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)
_INTERVALS = Intervals()
_AUTOFAILING = (ExperimentType.MAB_ONLINE, ExperimentType.CMAB_ONLINE)
_NONE = History()


def _subject(kind: ExperimentType = ExperimentType.FREQ_ONLINE, **fields: object) -> Subject:
    subject = Subject(
        experiment_type=kind,
        state=ExperimentState.COMMITTED,
        start_at=_START,
        end_at=_END,
        enable_autofail=kind in _AUTOFAILING,
        autofail_window=timedelta(hours=24),
        oldest_pending_draw_at=_START + _HOUR,
        snapshot_requested_at=None,
    )
    return replace(subject, **fields)  # type: ignore[arg-type]


def _due(job: Job, subject: Subject, history: History = _NONE, *, now: datetime = _START) -> Due:
    return next_due(job, subject, history, _INTERVALS, now=now)


@pytest.mark.parametrize("job", Job)
@pytest.mark.parametrize("kind", ExperimentType)
@pytest.mark.parametrize("state", ExperimentState)
def test_each_type_has_its_jobs_while_committed(job: Job, kind: ExperimentType, state: ExperimentState) -> None:
    table = {
        Job.SNAPSHOT: set(ExperimentType),
        Job.DWH_PULL: {ExperimentType.MAB_ONLINE_DWH},
        Job.AUTOFAIL: set(_AUTOFAILING),
    }
    due = _due(job, _subject(kind, state=state))
    assert (due.at is not None) == (kind in table[job] and state is ExperimentState.COMMITTED)
    assert due.reason


@pytest.mark.parametrize("kind", ExperimentType)
def test_the_first_snapshot_is_due_a_day_before_the_start(kind: ExperimentType) -> None:
    first = _START - timedelta(days=1)
    for now in (first - _SECOND, first, first + _SECOND, _END):
        assert _due(Job.SNAPSHOT, _subject(kind), now=now).at == first


def test_a_snapshot_is_due_three_hours_after_the_last() -> None:
    last = History(succeeded_at=_START + _MINUTE)
    assert _due(Job.SNAPSHOT, _subject(), last).at == _START + _MINUTE + 3 * _HOUR


def test_a_snapshot_taken_before_the_window_is_followed_by_one_at_its_beginning() -> None:
    early = History(succeeded_at=_START - timedelta(days=9))
    assert _due(Job.SNAPSHOT, _subject(), early).at == _START - timedelta(days=1)


@pytest.mark.parametrize(("past", "is_due"), [(-_SECOND, True), (timedelta(0), True), (_SECOND, False)])
def test_snapshots_end_a_day_after_the_end(past: timedelta, is_due: bool) -> None:
    bound = _END + timedelta(days=1)
    last = History(succeeded_at=bound - 3 * _HOUR + past)
    assert (_due(Job.SNAPSHOT, _subject(), last, now=last.succeeded_at or bound).at is not None) == is_due
    assert (_due(Job.SNAPSHOT, _subject(), now=bound + past).at is not None) == is_due


def test_a_requested_snapshot_is_due_at_once_also_outside_the_window() -> None:
    for requested in (_START - timedelta(days=30), _START, _END + timedelta(days=30)):
        subject = _subject(snapshot_requested_at=requested)
        assert _due(Job.SNAPSHOT, subject, History(succeeded_at=requested), now=requested).at == requested


def test_a_request_after_a_failure_does_not_wait_and_an_older_one_does() -> None:
    failed = History(failures=2, failed_at=_START)
    assert _due(Job.SNAPSHOT, _subject(snapshot_requested_at=_START + _SECOND), failed).at == _START + _SECOND
    assert _due(Job.SNAPSHOT, _subject(snapshot_requested_at=_START), failed).at == _START + 10 * _MINUTE


@pytest.mark.parametrize("job", [Job.DWH_PULL, Job.AUTOFAIL])
def test_without_a_pending_draw_nothing_is_pulled_or_failed(job: Job) -> None:
    kind = ExperimentType.MAB_ONLINE_DWH if job is Job.DWH_PULL else ExperimentType.MAB_ONLINE
    assert _due(job, _subject(kind, oldest_pending_draw_at=None)).at is None


def test_the_first_pull_is_due_at_once_and_the_next_four_hours_after_the_last() -> None:
    subject = _subject(ExperimentType.MAB_ONLINE_DWH)
    assert _due(Job.DWH_PULL, subject).at == subject.oldest_pending_draw_at
    pulled = History(succeeded_at=_START + 5 * _HOUR)
    assert _due(Job.DWH_PULL, subject, pulled).at == _START + 9 * _HOUR


@pytest.mark.parametrize(("past", "is_due"), [(-_SECOND, True), (timedelta(0), True), (_SECOND, False)])
def test_pulls_end_eight_days_after_the_end(past: timedelta, is_due: bool) -> None:
    bound = _END + timedelta(days=8)
    subject = _subject(ExperimentType.MAB_ONLINE_DWH)
    assert (_due(Job.DWH_PULL, subject, now=bound + past).at is not None) == is_due
    last = History(succeeded_at=bound - 4 * _HOUR + past)
    assert (_due(Job.DWH_PULL, subject, last, now=_END).at is not None) == is_due


@pytest.mark.parametrize("kind", _AUTOFAILING)
def test_draws_are_failed_when_the_window_of_the_oldest_has_passed(kind: ExperimentType) -> None:
    drawn = _START + 5 * _MINUTE
    subject = _subject(kind, oldest_pending_draw_at=drawn, autofail_window=timedelta(hours=2))
    for now in (drawn, drawn + 2 * _HOUR - _SECOND, drawn + 2 * _HOUR + _SECOND, _END + timedelta(days=100)):
        assert _due(Job.AUTOFAIL, subject, now=now).at == drawn + 2 * _HOUR
    assert _due(Job.AUTOFAIL, replace(subject, enable_autofail=False)).at is None


@pytest.mark.parametrize(
    ("job", "kind", "longest"),
    [
        (Job.SNAPSHOT, ExperimentType.FREQ_PREASSIGNED, 3 * _HOUR),
        (Job.DWH_PULL, ExperimentType.MAB_ONLINE_DWH, 4 * _HOUR),
        (Job.AUTOFAIL, ExperimentType.CMAB_ONLINE, _HOUR),
    ],
)
def test_failures_wait_five_minutes_doubled_up_to_the_interval(
    job: Job, kind: ExperimentType, longest: timedelta
) -> None:
    failed_at = _START + timedelta(days=2)
    for failures in (1, 2, 3, 4, 5, 6, 7, 1000, 2**31 - 1):
        expected = min(5 * _MINUTE * 2 ** min(failures - 1, 10), longest)
        history = History(succeeded_at=_START, failures=failures, failed_at=failed_at)
        assert _due(job, _subject(kind), history, now=failed_at).at == failed_at + expected


def test_a_success_ends_the_backoff() -> None:
    healed = History(succeeded_at=_START + _HOUR, failures=0, failed_at=_START)
    assert _due(Job.SNAPSHOT, _subject(), healed).at == _START + 4 * _HOUR


def test_an_early_failure_does_not_fail_draws_before_their_time() -> None:
    history = History(failures=1, failed_at=_START)
    subject = _subject(ExperimentType.MAB_ONLINE)
    assert _due(Job.AUTOFAIL, subject, history).at == _START + 25 * _HOUR


@pytest.mark.parametrize("day", [datetime(2027, 3, 28, tzinfo=UTC), datetime(2027, 10, 31, tzinfo=UTC)])
def test_a_change_of_the_clocks_neither_skips_nor_doubles_a_run(day: datetime) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    begin = (day - timedelta(days=1)).replace(tzinfo=berlin)
    subject = _subject(start_at=begin, end_at=begin + timedelta(days=3))
    at, runs = begin.astimezone(UTC), []
    while at < begin.astimezone(UTC) + timedelta(days=2):
        due = _due(Job.SNAPSHOT, subject, History(succeeded_at=at.astimezone(berlin)), now=at).at
        assert due is not None
        runs.append(due.astimezone(UTC) - at)
        at = due.astimezone(UTC)
    assert runs == [3 * _HOUR] * 16
    drawn = begin + timedelta(hours=12)
    bandit = _subject(ExperimentType.MAB_ONLINE, oldest_pending_draw_at=drawn)
    due = _due(Job.AUTOFAIL, bandit).at
    assert due is not None
    assert due.astimezone(UTC) - drawn.astimezone(UTC) == timedelta(hours=24)
