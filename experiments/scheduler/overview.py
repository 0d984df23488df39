"""For people: of each job of an experiment, when it ran last and how that ended, when it is due next, and why."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection
from django.db.models import Max

from experiments.kinds import ExperimentState, ExperimentType, Job
from experiments.models import Experiment, JobRun, JobState, RunStatus, Snapshot
from experiments.scheduler.schedule import Due, History, Intervals, Subject, next_due

_OLDEST_DRAWS = """
    SELECT e.id, oldest.created_at FROM unnest(%s::text[]) AS e (id)
    CROSS JOIN LATERAL (
        SELECT d.created_at FROM draws d WHERE d.experiment_id = e.id AND d.outcome IS NULL
            AND d.created_at BETWEEN '0001-01-02' AND '9999-12-30'
        ORDER BY d.created_at LIMIT 1
    ) AS oldest
"""
_LAST_RUNS = """
    SELECT last.id FROM unnest(%s::text[]) AS e (id) CROSS JOIN unnest(%s::text[]) AS kind (job)
    CROSS JOIN LATERAL (
        SELECT r.id FROM job_runs r WHERE r.experiment_id = e.id AND r.job = kind.job
        ORDER BY r.started_at DESC LIMIT 1
    ) AS last
"""


@dataclass(frozen=True, kw_only=True)
class JobOverview:
    """``last`` is the newest run, which may be unfinished; ``failures`` are those since the last success."""

    job: Job
    last: JobRun | None
    failures: int
    due: Due


@dataclass(frozen=True, kw_only=True)
class ExperimentOverview:
    """Only jobs that are for experiments of this type."""

    experiment: Experiment
    now: datetime
    jobs: tuple[JobOverview, ...]


def overview(experiments: Sequence[Experiment], intervals: Intervals) -> list[ExperimentOverview]:
    """In the order given, as of now by the database's clock."""
    ids = [experiment.id for experiment in experiments]
    now = _now()
    states = {(state.experiment_id, state.job): state for state in JobState.objects.filter(experiment_id__in=ids)}
    requests = dict(
        Snapshot.objects.filter(experiment_id__in=ids, status="pending")
        .values_list("experiment_id")
        .annotate(at=Max("created_at"))
    )
    with connection.cursor() as cursor:
        cursor.execute(_OLDEST_DRAWS, [ids])
        draws: dict[str, datetime] = dict(cursor.fetchall())
        cursor.execute(_LAST_RUNS, [ids, [job.value for job in Job]])
        last_ids = [id for (id,) in cursor.fetchall()]
    last: defaultdict[str, dict[str, JobRun]] = defaultdict(dict)
    for run in JobRun.objects.filter(id__in=last_ids):
        last[run.experiment_id][run.job] = run
    return [
        ExperimentOverview(
            experiment=experiment,
            now=now,
            jobs=tuple(
                _job(
                    job,
                    _subject(experiment, draws.get(experiment.id), requests.get(experiment.id)),
                    states.get((experiment.id, job.value)),
                    last[experiment.id],
                    intervals,
                    now,
                )
                for job in Job
                if job.applies_to(ExperimentType(experiment.experiment_type))
            ),
        )
        for experiment in experiments
    ]


def _job(
    job: Job,
    subject: Subject,
    state: JobState | None,
    last: dict[str, JobRun],
    intervals: Intervals,
    now: datetime,
) -> JobOverview:
    history = History()
    if state is not None:
        history = History(succeeded_at=state.succeeded_at, failures=state.failures, failed_at=state.failed_at)
    due = next_due(job, subject, history, intervals, now=now)
    running = next((run for run in last.values() if run.status == RunStatus.RUNNING), None)
    if running is not None and due.at is not None and due.at <= now:
        # An experiment has one job at a time.
        due = Due(at=due.at, reason=f"{due.reason}; it waits for the end of {running.job}, which runs now")
    return JobOverview(job=job, last=last.get(job.value), failures=history.failures, due=due)


def _subject(experiment: Experiment, oldest: datetime | None, requested: datetime | None) -> Subject:
    return Subject(
        experiment_type=ExperimentType(experiment.experiment_type),
        state=ExperimentState(experiment.state),
        start_at=experiment.start_date,
        end_at=experiment.end_date,
        enable_autofail=experiment.enable_autofail,
        autofail_window=timedelta(hours=experiment.autofail_window),
        oldest_pending_draw_at=oldest,
        snapshot_requested_at=requested,
    )


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        ((now,),) = cursor.fetchall()
    at: datetime = now
    return at.astimezone(UTC)
