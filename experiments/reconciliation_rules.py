"""The rules of experiments: importing this module declares them."""

from datetime import timedelta

from django.conf import settings

from experiments.reconciliation import participants, posteriors, upkeep
from experiments.scheduler.schedule import Intervals
from taskqueue.reconciliation.rules import declare

declare(*participants.CHECKS, *posteriors.CHECKS)
declare(
    *upkeep.checks(
        Intervals(
            snapshot=timedelta(seconds=settings.EXPERIMENTS["SNAPSHOT_INTERVAL_SECONDS"]),
            pull=timedelta(seconds=settings.EXPERIMENTS["PULL_INTERVAL_SECONDS"]),
        )
    )
)
