"""``manage.py run_job JOB EXPERIMENT``: one maintenance job now, in this process."""

import signal
from typing import Any, override

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.errors import ExperimentError
from experiments.kinds import Job
from experiments.models import RunStatus
from experiments.scheduler.by_hand import RunningByHand
from experiments.scheduler.functions import job_functions
from taskqueue.database import Database


class Command(BaseCommand):
    help = (
        "Run a maintenance job of an experiment now, whether it is due or not, under the workers' lock and ledger. "
        "Ends with 0 when it is done, 1 when it was refused or failed, 2 when it was not understood."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("job", choices=[job.value for job in Job])
        parser.add_argument("experiment", metavar="EXPERIMENT", help="its id")

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        job = Job(options["job"])
        function = job_functions().get(job)
        if function is None:
            raise CommandError(f"no function does {job} (EXPERIMENTS['JOBS'] names them)")
        by_hand = RunningByHand(
            database=Database(pgbouncer=bool(settings.TASKQUEUE["PGBOUNCER"]), name="xngin"),
            lease_seconds=settings.EXPERIMENTS["LEASE_SECONDS"],
            timeout_seconds=settings.EXPERIMENTS["JOB_TIMEOUT_SECONDS"],
        )
        # Whoever stops it gives the run back, instead of leaving it to be found expired.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            closing = by_hand.run(job, options["experiment"], function)
        except ExperimentError as error:
            raise CommandError(f"refused: {error} [{error.code}]") from error
        finally:
            signal.signal(signal.SIGTERM, before)
        if closing.status is RunStatus.SUCCESS:
            counts = ", ".join(f"{name} {count}" for name, count in closing.counts.items())
            self.stdout.write("; ".join(filter(None, ["done", counts, closing.message])))
        elif closing.status is RunStatus.RELEASED:
            raise CommandError("interrupted; the run was given back")
        else:
            raise CommandError(f"failed: {closing.message}")
