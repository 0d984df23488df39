"""Contexts: what a contextual bandit knows of a participant before it draws, one row a number."""

from django.db import models
from django.db.models import Q

from experiments.kinds import RewardType
from experiments.models import triggers
from experiments.models.experiment import Experiment
from taskqueue.models import IdField


class Context(models.Model):
    """``position`` is the place of its value in ``draws.context_vals``, from 1.

    ``value_type`` is ``binary`` (0 or 1) or ``real-valued``. A constant term is a context like any other.
    """

    id = IdField.with_prefix("ctx_")
    experiment = models.ForeignKey(Experiment, on_delete=models.DB_CASCADE, db_index=False, related_name="contexts")
    position = models.IntegerField()
    name = models.TextField()
    description = models.TextField(db_default="", blank=True)
    value_type = models.TextField(
        choices=[(kind.value, kind.value) for kind in RewardType], db_default=RewardType.REAL_VALUED.value
    )

    class Meta:
        db_table = "context"
        constraints = [
            models.UniqueConstraint(name="context_one_per_position", fields=["experiment", "position"]),
            models.UniqueConstraint(name="context_one_per_name", fields=["experiment", "name"]),
            models.CheckConstraint(name="context_position_from_one", condition=Q(position__gte=1)),
            models.CheckConstraint(name="context_named", condition=~Q(name="")),
            models.CheckConstraint(
                name="context_value_type_declared",
                condition=Q(value_type__in=sorted(kind.value for kind in RewardType)),
            ),
        ]
        triggers = triggers.CONTEXT_TRIGGERS

    def __str__(self) -> str:
        return self.name
