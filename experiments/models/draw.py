"""Draws: which arm a bandit gave each participant, and the outcome once known. Made for tens of millions of rows."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from experiments.models import triggers
from experiments.models.arm import Arm
from experiments.models.conditions import Finite, FiniteVector, IdLength
from experiments.models.experiment import Experiment
from taskqueue.ids import DatabaseNow


class Draw(models.Model):
    """Only the outcome is ever added, once. No foreign keys: triggers judge a whole statement's rows at once.

    ``current_*`` is the posterior of the draw's arm as it was once the transaction that recorded the outcome had
    applied all of its outcomes; NULL where the outcome was written by plain SQL.
    """

    pk = models.CompositePrimaryKey("experiment_id", "participant_id")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="draws"
    )
    participant_id = models.TextField(db_collation="C")
    arm = models.ForeignKey(Arm, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="draws")
    created_at = models.DateTimeField(db_default=DatabaseNow())
    observed_at = models.DateTimeField(null=True, blank=True)
    outcome = models.FloatField(null=True, blank=True)
    # True: filled in because the time was up, False: observed.
    autofailed_outcome = models.BooleanField(null=True, blank=True)
    context_vals: "ArrayField[list[float] | None, list[float] | None]" = ArrayField(
        models.FloatField(), null=True, blank=True
    )
    current_alpha = models.FloatField(null=True, blank=True)
    current_beta = models.FloatField(null=True, blank=True)
    current_mu: "ArrayField[list[float] | None, list[float] | None]" = ArrayField(
        models.FloatField(), null=True, blank=True
    )
    current_covariance: "ArrayField[list[list[float]] | None, list[list[float]] | None]" = ArrayField(
        ArrayField(models.FloatField()), null=True, blank=True
    )

    class Meta:
        db_table = "draws"
        constraints = [
            models.CheckConstraint(
                name="draws_participant_id_of_1_to_255_characters", condition=Q(IdLength("participant_id"))
            ),
            models.CheckConstraint(
                name="draws_outcome_with_flag_and_time",
                condition=Q(outcome__isnull=True, autofailed_outcome__isnull=True, observed_at__isnull=True)
                | Q(outcome__isnull=False, autofailed_outcome__isnull=False, observed_at__isnull=False),
            ),
            models.CheckConstraint(name="draws_outcome_finite", condition=Q(Finite("outcome"))),
            models.CheckConstraint(name="draws_context_finite", condition=Q(FiniteVector("context_vals"))),
        ]
        indexes = [
            # The oldest pending draw of an experiment, and the pages of pending ones.
            models.Index(name="draws_pending", fields=["experiment", "created_at"], condition=Q(outcome__isnull=True)),
        ]
        triggers = triggers.DRAW_TRIGGERS
        default_permissions = ("view",)
