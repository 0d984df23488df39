"""Runs of maintenance jobs: the ledger, the lock (one unfinished run an experiment) and the fence of their writes."""

from django.db import models
from django.db.models import Q

from experiments.kinds import Job
from experiments.models import schedule_triggers, triggers
from experiments.models.experiment import Experiment
from taskqueue.ids import DatabaseNow
from taskqueue.models import IdField


class RunStatus(models.TextChoices):
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    LOST = "lost"
    RELEASED = "released"


class JobRun(models.Model):
    """``lost``: its lease expired, whoever found it closed it. ``released``: a stopping worker gave it back."""

    id = IdField.with_prefix("run_")
    experiment = models.ForeignKey(Experiment, on_delete=models.DB_CASCADE, db_index=False, related_name="job_runs")
    job = models.TextField(choices=[(job.value, job.value) for job in Job])
    status = models.TextField(choices=RunStatus, db_default=RunStatus.RUNNING.value)
    started_at = models.DateTimeField(db_default=DatabaseNow())
    finished_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    worker_id = models.TextField(null=True, blank=True)
    message = models.TextField(null=True, blank=True)
    counts = models.JSONField(null=True, blank=True)

    class Meta:
        db_table = "job_runs"
        constraints = [
            models.CheckConstraint(
                name="job_runs_job_declared", condition=Q(job__in=sorted(kind.value for kind in Job))
            ),
            models.CheckConstraint(name="job_runs_status_declared", condition=Q(status__in=sorted(RunStatus.values))),
            models.CheckConstraint(
                name="job_runs_lease_while_running",
                condition=Q(
                    status=RunStatus.RUNNING.value,
                    finished_at__isnull=True,
                    lease_until__isnull=False,
                    worker_id__isnull=False,
                )
                | Q(~Q(status=RunStatus.RUNNING.value), finished_at__isnull=False, lease_until__isnull=True),
            ),
            models.UniqueConstraint(
                name="job_runs_one_unfinished", fields=["experiment"], condition=Q(status=RunStatus.RUNNING.value)
            ),
        ]
        indexes = [models.Index(name="job_runs_history", fields=["experiment", "job", "started_at"])]
        triggers = [*triggers.JOB_RUN_TRIGGERS, *schedule_triggers.JOB_STATE_TRIGGERS]
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.id
