"""Arms: what participants get, the prior of each, and its posterior as a cache."""

from decimal import Decimal

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from experiments.models import triggers
from experiments.models.conditions import Finite, FiniteSquare, FiniteVector
from experiments.models.experiment import Experiment
from taskqueue.ids import DatabaseNow
from taskqueue.models import IdField

_LARGEST_WEIGHT = 1_000_000


class Arm(models.Model):
    """Position 1 is the baseline. ``arm_weight`` is relative to the other arms' weights.

    ``alpha`` and ``beta``, or ``mu`` and ``covariance``, are the posterior after all outcomes of the arm's draws: a
    cache that ``recompute_posteriors`` can make anew. NULL: nothing was recorded yet, so the prior holds.
    The sums are exact, and kept by triggers on ``draws`` whoever writes there: of outcomes y, and of contexts x.
    """

    id = IdField.with_prefix("arm_")
    experiment = models.ForeignKey(Experiment, on_delete=models.DB_CASCADE, db_index=False, related_name="arms")
    position = models.IntegerField()
    name = models.TextField()
    description = models.TextField(db_default="", blank=True)
    arm_weight = models.FloatField(db_default=1.0)
    alpha_init = models.FloatField(null=True, blank=True)
    beta_init = models.FloatField(null=True, blank=True)
    # Each coefficient's prior mean and standard deviation (not variance); coefficients are independent.
    mu_init = models.FloatField(null=True, blank=True)
    sigma_init = models.FloatField(null=True, blank=True)
    alpha = models.FloatField(null=True, blank=True)
    beta = models.FloatField(null=True, blank=True)
    mu: "ArrayField[list[float] | None, list[float] | None]" = ArrayField(models.FloatField(), null=True, blank=True)
    covariance: "ArrayField[list[list[float]] | None, list[list[float]] | None]" = ArrayField(
        ArrayField(models.FloatField()), null=True, blank=True
    )
    n_outcomes = models.BigIntegerField(db_default=0)
    sum_y = models.DecimalField(db_default=Decimal(0))
    sum_yy = models.DecimalField(db_default=Decimal(0))
    # By coefficient, and the upper triangle of x x' row by row. NULL without contexts.
    sum_xy: "ArrayField[list[Decimal] | None, list[Decimal] | None]" = ArrayField(
        models.DecimalField(), null=True, blank=True
    )
    sum_xx: "ArrayField[list[Decimal] | None, list[Decimal] | None]" = ArrayField(
        models.DecimalField(), null=True, blank=True
    )
    created_at = models.DateTimeField(db_default=DatabaseNow())
    updated_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        db_table = "arms"
        constraints = [
            models.UniqueConstraint(name="arms_one_per_position", fields=["experiment", "position"]),
            models.UniqueConstraint(name="arms_one_per_name", fields=["experiment", "name"]),
            models.CheckConstraint(name="arms_position_from_one", condition=Q(position__gte=1)),
            models.CheckConstraint(name="arms_named", condition=~Q(name="")),
            models.CheckConstraint(
                name="arms_weight_in_range", condition=Q(arm_weight__gt=0, arm_weight__lte=_LARGEST_WEIGHT)
            ),
            models.CheckConstraint(
                name="arms_prior_of_one_kind",
                condition=Q(alpha_init__isnull=True, beta_init__isnull=True)
                & Q(mu_init__isnull=True, sigma_init__isnull=True)
                | Q(alpha_init__isnull=False, beta_init__isnull=False, mu_init__isnull=True, sigma_init__isnull=True)
                | Q(alpha_init__isnull=True, beta_init__isnull=True, mu_init__isnull=False, sigma_init__isnull=False),
            ),
            models.CheckConstraint(
                name="arms_prior_in_range",
                condition=(Q(alpha_init__isnull=True) | Q(alpha_init__gt=0, beta_init__gt=0))
                & (Q(sigma_init__isnull=True) | Q(sigma_init__gt=0))
                & Q(Finite("alpha_init"))
                & Q(Finite("beta_init"))
                & Q(Finite("mu_init"))
                & Q(Finite("sigma_init")),
            ),
            models.CheckConstraint(
                name="arms_posterior_of_one_kind",
                condition=Q(alpha__isnull=True, beta__isnull=True, mu__isnull=True, covariance__isnull=True)
                | Q(alpha__gt=0, beta__gt=0, mu__isnull=True, covariance__isnull=True)
                & Q(alpha__isnull=False, beta__isnull=False)
                | Q(alpha__isnull=True, beta__isnull=True, mu__isnull=False, covariance__isnull=False),
            ),
            models.CheckConstraint(
                name="arms_posterior_finite",
                condition=Q(Finite("alpha"))
                & Q(Finite("beta"))
                & Q(FiniteVector("mu"))
                & Q(FiniteSquare("covariance")),
            ),
        ]
        triggers = triggers.ARM_TRIGGERS

    def __str__(self) -> str:
        return self.name
