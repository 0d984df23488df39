"""Runs of maintenance jobs as the scheduler opens them, and draws for them to work on."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.db import connection
from django.utils import timezone

from experiments.jobs.run import Run
from experiments.kinds import Job
from experiments.models import Draw, Experiment, JobRun, RunStatus
from tests.support.experiments import arms_of


def open_run(experiment: Experiment, job: Job) -> Run:
    """In the ledger, with a lease of an hour."""
    now = timezone.now()
    row = JobRun.objects.create(
        experiment=experiment, job=job.value, worker_id="test", lease_until=now + timedelta(hours=1)
    )
    return Run(id=row.id, job=job, experiment_id=experiment.id)


def close_run(run: Run, status: RunStatus = RunStatus.LOST) -> None:
    JobRun.objects.filter(pk=run.id).update(status=status.value, finished_at=timezone.now(), lease_until=None)


def draw(
    experiment: Experiment,
    participants: Iterable[str],
    *,
    hours_ago: float = 0.0,
    arm: int = 0,
    context: list[float] | None = None,
) -> None:
    """Pending draws of one arm."""
    chosen = arms_of(experiment)[arm]
    at = timezone.now() - timedelta(hours=hours_ago)
    Draw.objects.bulk_create(
        Draw(experiment=experiment, arm=chosen, participant_id=participant, created_at=at, context_vals=context)
        for participant in participants
    )


def draw_many(experiment: Experiment, count: int, *, hours_ago: float = 0.0, contexts: int = 0) -> None:
    """Pending draws p1, p2, … spread over the arms, each a millisecond older than the one before."""
    arms = [arm.id for arm in arms_of(experiment)]
    context = f"ARRAY[{', '.join(f'(n %% {7 + 4 * i}) / 4.0' for i in range(contexts))}]" if contexts else "NULL"
    with connection.cursor() as cursor:
        cursor.execute(
            _DRAW_MANY.format(context=context),
            [experiment.id, arms, len(arms), hours_ago * 3600, count],
        )


_DRAW_MANY = """
    INSERT INTO draws (experiment_id, participant_id, arm_id, created_at, context_vals)
    SELECT %s, 'p' || n, (%s::text[])[n %% %s + 1], now() - make_interval(secs => %s + n / 1000.0), {context}::float8[]
    FROM generate_series(1, %s) AS n
"""


def outcomes_of(experiment: Experiment) -> dict[str, float | None]:
    return dict(Draw.objects.filter(experiment=experiment).values_list("participant_id", "outcome"))
