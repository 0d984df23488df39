"""Assignments: which arm each participant of a frequentist experiment is in. Made for tens of millions of rows."""

from django.db import models
from django.db.models import Q

from experiments.models import triggers
from experiments.models.arm import Arm
from experiments.models.conditions import IdLength
from experiments.models.experiment import Experiment
from taskqueue.ids import DatabaseNow


class ArmAssignment(models.Model):
    """Rows never change. No foreign keys: triggers judge a whole statement's rows at once, see ``triggers``."""

    pk = models.CompositePrimaryKey("experiment_id", "participant_id")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="assignments"
    )
    participant_id = models.TextField(db_collation="C")
    arm = models.ForeignKey(
        Arm, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="assignments"
    )
    cluster_id = models.TextField(null=True, blank=True, db_collation="C")
    created_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        db_table = "arm_assignments"
        constraints = [
            models.CheckConstraint(
                name="arm_assignments_ids_of_1_to_255_characters",
                condition=Q(IdLength("participant_id")) & Q(IdLength("cluster_id")),
            ),
        ]
        indexes = [
            # Clusters are read whole, in chunks.
            models.Index(
                name="arm_assignments_by_cluster",
                fields=["experiment", "cluster_id", "participant_id"],
                condition=Q(cluster_id__isnull=False),
            ),
        ]
        triggers = triggers.ASSIGNMENT_TRIGGERS
        default_permissions = ("view",)
