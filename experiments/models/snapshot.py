"""Snapshots: what was known of an experiment at an instant."""

from django.db import models
from django.db.models import Q

from experiments.models import schedule_triggers, triggers
from experiments.models.experiment import Experiment
from experiments.models.job_run import JobRun
from taskqueue.ids import DatabaseNow
from taskqueue.models import IdField


class SnapshotStatus(models.TextChoices):
    PENDING = "pending"
    SUCCESS = "success"
    FAILED = "failed"


class Snapshot(models.Model):
    """Who wants one now inserts a ``pending`` row. A successful one never changes again."""

    id = IdField.with_prefix("sn_")
    experiment = models.ForeignKey(Experiment, on_delete=models.DB_CASCADE, db_index=False, related_name="snapshots")
    status = models.TextField(choices=SnapshotStatus, db_default=SnapshotStatus.PENDING.value)
    data = models.JSONField(null=True, blank=True)
    message = models.TextField(null=True, blank=True)
    run = models.ForeignKey(JobRun, null=True, blank=True, on_delete=models.DB_SET_NULL, related_name="snapshots")
    created_at = models.DateTimeField(db_default=DatabaseNow())
    updated_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        db_table = "snapshots"
        constraints = [
            models.CheckConstraint(
                name="snapshots_status_declared", condition=Q(status__in=sorted(SnapshotStatus.values))
            ),
            models.CheckConstraint(
                name="snapshots_data_of_success",
                condition=Q(status=SnapshotStatus.SUCCESS.value, data__isnull=False)
                | Q(~Q(status=SnapshotStatus.SUCCESS.value), data__isnull=True),
            ),
            models.CheckConstraint(
                name="snapshots_failed_with_message",
                condition=~Q(status=SnapshotStatus.FAILED.value) | Q(message__isnull=False),
            ),
        ]
        indexes = [
            models.Index(name="snapshots_by_time", fields=["experiment", "created_at"]),
            models.Index(
                name="snapshots_pending",
                fields=["experiment", "created_at"],
                condition=Q(status=SnapshotStatus.PENDING.value),
            ),
        ]
        triggers = [*triggers.SNAPSHOT_TRIGGERS, *schedule_triggers.SNAPSHOT_WAKE_UPS]
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.id
