"""The due query says what the schedule says, for any history; and of what is due it picks what fits, fairly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.kinds import ExperimentState, ExperimentType, Job
from experiments.models import Experiment
from experiments.scheduler.due import Look, Room, look_for_due
from experiments.scheduler.schedule import History, Intervals, Subject, next_due
from taskqueue.database import HASHING, Connection, Database
from tests.support.experiments import arms_of, make_datasource, make_experiment

pytestmark = pytest.mark.django_db(transaction=True)

_INTERVALS = Intervals(snapshot=timedelta(hours=3), pull=timedelta(minutes=90))
_PLENTY = Room(slots=1000, datasource_slots=1000)
_HORIZON = timedelta(hours=6)
_SECOND = timedelta(seconds=1)
# Around a spring and an autumn change of the clocks, a leap day, the beginning of all dates and a far future.
_NOWS = [
    datetime(2027, 3, 28, 1, tzinfo=UTC),
    datetime(2027, 10, 31, 0, 59, 59, tzinfo=UTC),
    datetime(2028, 2, 29, 12, tzinfo=UTC),
    datetime(1970, 2, 1, tzinfo=UTC),
    datetime(8999, 12, 1, tzinfo=UTC),
]
_ENDED = ("success", "failed", "lost", "released")


@dataclass(frozen=True, kw_only=True)
class Ended:
    job: Job
    status: str
    began: timedelta
    took: timedelta


@dataclass(frozen=True, kw_only=True)
class Past:
    """An experiment and its history; instants are distances from now."""

    state: ExperimentState
    start: timedelta
    length: timedelta
    enable_autofail: bool
    window_hours: int
    draws: Sequence[timedelta]
    requests: Sequence[timedelta]
    runs: Sequence[Ended]
    running: bool


# Distances at which something changes, so that both sides of each bound are met often.
_BOUNDS = [timedelta(hours=hours) for hours in (0, 1, 1.5, 3, 24, 25, 27, 192, 196, 240)] + [
    timedelta(minutes=5) * 2**times for times in range(5)
]


@st.composite
def _distances(draw: st.DrawFn) -> timedelta:
    bound: timedelta = draw(st.sampled_from(_BOUNDS)) * draw(st.sampled_from([-1, 1]))
    return bound + draw(st.sampled_from([-_SECOND, timedelta(0), timedelta(microseconds=1), _SECOND, 7 * _SECOND]))


# An interval ago: what is due again now, or is not any more since its time ends now.
_just_due = st.builds(
    lambda ago, near: near - ago,
    st.sampled_from([_INTERVALS.snapshot, _INTERVALS.pull, timedelta(minutes=5)]),
    st.sampled_from([-_SECOND, timedelta(0), _SECOND]),
)
_just_over = st.builds(
    lambda ago, near: near - ago,
    st.sampled_from([timedelta(hours=24), timedelta(hours=192)]),
    st.sampled_from([-_SECOND, timedelta(0), _SECOND, timedelta(minutes=30)]),
)
_runs = st.builds(
    Ended,
    job=st.sampled_from(Job),
    status=st.sampled_from(_ENDED),
    began=_distances() | _just_due,
    took=st.sampled_from([timedelta(0), _SECOND, timedelta(minutes=7)]),
)
_pasts = st.builds(
    Past,
    state=st.sampled_from([ExperimentState.COMMITTED] * 5 + [ExperimentState.ABANDONED]),
    start=_distances() | _just_over,
    length=st.sampled_from([timedelta(0), timedelta(hours=1), timedelta(days=1), timedelta(days=9)]),
    enable_autofail=st.booleans(),
    window_hours=st.sampled_from([1, 3, 24]),
    draws=st.lists(_distances(), max_size=2),
    requests=st.lists(_distances(), max_size=2),
    runs=st.lists(_runs, max_size=5),
    running=st.sampled_from([False] * 5 + [True]),
)


@pytest.fixture
def connection() -> Iterator[Connection]:
    with closing(Database(name="due", session={**HASHING, "timezone": "Europe/Berlin"}).open("test")) as connection:
        yield connection


def _due(connection: Connection, now: datetime | None = None, **how: Any) -> Look:
    return look_for_due(
        connection,
        **{"jobs": Job, "intervals": _INTERVALS, "room": _PLENTY, "horizon_seconds": 3600.0, "now": now, **how},
    )


def _write(connection: Connection, experiment: Experiment, arm_id: str, past: Past, now: datetime) -> None:
    own = {"id": experiment.id, "arm": arm_id}
    autofails = Job.AUTOFAIL.applies_to(ExperimentType(experiment.experiment_type)) and past.enable_autofail
    connection.execute(
        "UPDATE experiments SET start_date = %(start)s, end_date = %(end)s, enable_autofail = %(autofails)s,"
        " autofail_window = %(hours)s WHERE id = %(id)s",
        {
            **own,
            "start": now + past.start,
            "end": now + past.start + past.length,
            "autofails": autofails,
            "hours": past.window_hours,
        },
    )
    if ExperimentType(experiment.experiment_type).is_bandit:
        for number, at in enumerate(past.draws):
            context = [0.0] * 3 if experiment.experiment_type == ExperimentType.CMAB_ONLINE else None
            connection.execute(
                "INSERT INTO draws (experiment_id, participant_id, arm_id, created_at, context_vals)"
                " VALUES (%(id)s, %(person)s, %(arm)s, %(at)s, %(context)s)",
                {**own, "person": f"p{number}", "at": now + at, "context": context},
            )
    for at in past.requests:
        connection.execute("INSERT INTO snapshots (experiment_id, created_at) VALUES (%s, %s)", [own["id"], now + at])
    for run in past.runs:
        connection.execute(
            "INSERT INTO job_runs (experiment_id, job, status, started_at, finished_at) VALUES (%s, %s, %s, %s, %s)",
            [own["id"], run.job.value, run.status, now + run.began, now + run.began + run.took],
        )
    if past.running:
        connection.execute(
            "INSERT INTO job_runs (experiment_id, job, worker_id, lease_until) VALUES (%s, 'snapshot', 'w', now())",
            [own["id"]],
        )
    if past.state is not ExperimentState.COMMITTED:
        connection.execute("UPDATE experiments SET state = %s WHERE id = %s", [past.state.value, own["id"]])


def _history(past: Past, job: Job, now: datetime) -> History:
    history = History()
    for run in past.runs:
        began, ended = now + run.began, now + run.began + run.took
        if run.job is not job or run.status == "released":
            continue
        if run.status == "success":
            history = replace(history, succeeded_at=max(history.succeeded_at or began, began), failures=0)
        else:
            latest = max(history.failed_at or ended, ended)
            history = replace(history, failures=history.failures + 1, failed_at=latest)
    return history


def _subject(experiment: Experiment, past: Past, now: datetime) -> Subject:
    kind = ExperimentType(experiment.experiment_type)
    return Subject(
        experiment_type=kind,
        state=past.state,
        start_at=now + past.start,
        end_at=now + past.start + past.length,
        enable_autofail=past.enable_autofail,
        autofail_window=timedelta(hours=past.window_hours),
        oldest_pending_draw_at=now + min(past.draws) if kind.is_bandit and past.draws else None,
        snapshot_requested_at=now + max(past.requests) if past.requests else None,
    )


@pytest.fixture
def experiments() -> list[tuple[Experiment, str]]:
    """One of each type with its first arm, committed."""
    made = [make_experiment(kind) for kind in ExperimentType]
    return [(experiment, arms_of(experiment)[0].id) for experiment in made]


@settings(
    max_examples=250, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(_pasts, min_size=len(ExperimentType), max_size=len(ExperimentType)), st.sampled_from([*_NOWS, None]))
def test_the_query_says_what_the_schedule_says(
    connection: Connection,
    experiments: list[tuple[Experiment, str]],
    pasts: list[Past],
    at: datetime | None,
) -> None:
    # A clock far from the database's own, or that one itself.
    now = at or datetime.now(UTC)
    expected: list[tuple[datetime, str]] = []
    ahead: list[datetime] = []
    for (experiment, _), past in zip(experiments, pasts, strict=True):
        dues = []
        for job in Job:
            due = next_due(job, _subject(experiment, past, now), _history(past, job, now), _INTERVALS, now=now)
            if due.at is None or past.running:
                continue
            if due.at <= now:
                dues.append((due.at, job))
            elif due.at <= now + _HORIZON:
                ahead.append(due.at)
        if dues:
            first, _ = min(dues)
            expected.append((first, experiment.id))
    with connection.transaction(force_rollback=True):
        for (experiment, arm_id), past in zip(experiments, pasts, strict=True):
            _write(connection, experiment, arm_id, past, now)

        look = _due(connection, now, horizon_seconds=_HORIZON.total_seconds())

    assert [(due.due_at, due.experiment_id) for due in look.jobs] == sorted(expected)
    assert look.next_at == min(ahead, default=None)
    of = {experiment.id: past for (experiment, _), past in zip(experiments, pasts, strict=True)}
    for found in look.jobs:
        assert found.runs == sum(
            run.job is found.job and run.status != "released" for run in of[found.experiment_id].runs
        )


@pytest.mark.parametrize(
    "created_at", ["-infinity", "infinity", "0044-03-15 BC", "294276-12-31", "1969-12-31", "9999-12-31"]
)
def test_a_draw_of_an_impossible_instant_disturbs_nobody(connection: Connection, created_at: str) -> None:
    odd, other = (
        make_experiment(ExperimentType.MAB_ONLINE, enable_autofail=True),
        make_experiment(ExperimentType.MAB_ONLINE),
    )
    connection.execute(
        "INSERT INTO draws (experiment_id, participant_id, arm_id, created_at) VALUES (%s, 'p', %s, %s)",
        [odd.id, arms_of(odd)[0].id, created_at],
    )

    assert {due.experiment_id for due in _due(connection).jobs} == {odd.id, other.id}


def test_one_datasource_takes_half_of_the_slots_however_long_it_waits(connection: Connection) -> None:
    slow, other = make_datasource(name="slow"), make_datasource(name="other")
    now = datetime.now(UTC)
    for number in range(6):
        make_experiment(ExperimentType.FREQ_ONLINE, datasource=slow, start_date=now - timedelta(days=9 + number))
    late = make_experiment(ExperimentType.FREQ_ONLINE, datasource=other, start_date=now)

    fresh = _due(connection, room=Room(slots=4, datasource_slots=2))
    held = _due(connection, room=Room(slots=3, datasource_slots=2, held_datasources=[slow.id]))
    full = _due(connection, room=Room(slots=2, datasource_slots=2, held_datasources=[slow.id, slow.id]))

    assert [due.datasource_id for due in fresh.jobs] == [slow.id, slow.id, other.id]
    assert [due.datasource_id for due in held.jobs] == [slow.id, other.id]
    assert [due.experiment_id for due in full.jobs] == [late.id]
    assert (fresh.due, held.due, full.due) == (7, 7, 7)


def test_the_oldest_due_come_first_and_only_as_many_as_there_are_slots(connection: Connection) -> None:
    now = datetime.now(UTC)
    made = {
        days: make_experiment(ExperimentType.FREQ_ONLINE, start_date=now - timedelta(days=days)).id
        for days in (2, 9, 4, 7)
    }

    look = _due(connection, room=Room(slots=3, datasource_slots=3))

    assert [due.experiment_id for due in look.jobs] == [made[9], made[7], made[4]]


def test_an_experiment_with_two_due_jobs_gets_the_older_one_first(connection: Connection) -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE_DWH, start_date=datetime.now(UTC) - timedelta(days=2))
    connection.execute(
        "INSERT INTO draws (experiment_id, participant_id, arm_id) VALUES (%s, 'p', %s)",
        [experiment.id, arms_of(experiment)[0].id],
    )

    look = _due(connection)
    pulls = _due(connection, jobs=[Job.DWH_PULL])

    assert [due.job for due in look.jobs] == [Job.SNAPSHOT]
    assert look.due == 2
    assert [due.job for due in pulls.jobs] == [Job.DWH_PULL]
