"""``manage.py show_schedule``: what ran last for each experiment, how it ended, what is due next and why."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import batched
from typing import Any, override

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.kinds import ExperimentState
from experiments.models import Experiment, JobRun
from experiments.scheduler.overview import ExperimentOverview, JobOverview, overview
from experiments.scheduler.schedule import Intervals

_BATCH = 500


class Command(BaseCommand):
    help = (
        "Of each maintenance job of committed experiments: the last run, how it ended, when it is due next and why. "
        "Intervals are those of the XNGIN_WORKER_* variables."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--experiment", metavar="ID", help="this one only, in whatever state it is")
        parser.add_argument("--json", action="store_true", help="one JSON object a line, an experiment each")

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        chosen = Experiment.objects.order_by("id")
        if options["experiment"] is None:
            chosen = chosen.filter(state=ExperimentState.COMMITTED)
        else:
            chosen = chosen.filter(pk=options["experiment"])
            if not chosen.exists():
                raise CommandError(f"there is no experiment {options['experiment']}")
        intervals = Intervals(
            snapshot=timedelta(seconds=settings.EXPERIMENTS["SNAPSHOT_INTERVAL_SECONDS"]),
            pull=timedelta(seconds=settings.EXPERIMENTS["PULL_INTERVAL_SECONDS"]),
        )
        shown = 0
        for batch in batched(chosen.iterator(chunk_size=_BATCH), _BATCH):
            for found in overview(batch, intervals):
                shown += 1
                for line in [json.dumps(_as_json(found))] if options["json"] else _as_text(found):
                    self.stdout.write(line)
        if not shown and not options["json"]:
            self.stdout.write("No experiment is committed, so nothing is scheduled.")


def _as_text(found: ExperimentOverview) -> Iterator[str]:
    experiment = found.experiment
    yield f"{experiment.id} {experiment.name!r}: {experiment.experiment_type}, {experiment.state}"
    for job in found.jobs:
        yield f"  {job.job:<8}  next: {_next(job, found.now)}"
        yield f"            last: {_last(job)}"


def _next(job: JobOverview, now: datetime) -> str:
    if job.due.at is None:
        return f"never as things stand: {job.due.reason}"
    when = "now, since" if job.due.at <= now else "at"
    return f"{when} {_instant(job.due.at)}: {job.due.reason}"


def _last(job: JobOverview) -> str:
    run = job.last
    if run is None:
        return "it never ran"
    if run.finished_at is None:
        return f"runs since {_instant(run.started_at)} on {run.worker_id} (run {run.id})"
    seconds = (run.finished_at - run.started_at).total_seconds()
    message = f": {run.message}" if run.message else ""
    return f"{run.status} at {_instant(run.finished_at)} after {seconds:.1f} s (run {run.id}){message}"


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _as_json(found: ExperimentOverview) -> dict[str, Any]:
    experiment = found.experiment
    return {
        "experiment_id": experiment.id,
        "name": experiment.name,
        "experiment_type": experiment.experiment_type,
        "state": experiment.state,
        "now": found.now.isoformat(),
        "jobs": [
            {
                "job": job.job.value,
                "due_at": job.due.at and job.due.at.isoformat(),
                "is_due": job.due.at is not None and job.due.at <= found.now,
                "reason": job.due.reason,
                "failures": job.failures,
                "last_run": job.last and _run(job.last),
            }
            for job in found.jobs
        ],
    }


def _run(run: JobRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "status": run.status,
        "started_at": run.started_at.isoformat(),
        "finished_at": run.finished_at and run.finished_at.isoformat(),
        "worker_id": run.worker_id,
        "message": run.message,
        "counts": run.counts,
    }
