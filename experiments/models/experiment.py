"""Experiments: what is tried, when, and how it is judged. Arms, contexts and participants are in other files."""

from datetime import UTC, datetime

from django.db import models
from django.db.models import F, Q

from experiments.kinds import ExperimentState, ExperimentType, Job, PriorType, RewardType
from experiments.models import schedule_triggers, triggers
from experiments.models.conditions import Finite
from experiments.models.datasource import Datasource
from taskqueue.ids import DatabaseNow
from taskqueue.models import IdField

_FIRST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_INSTANT = datetime(9000, 1, 1, tzinfo=UTC)
_FREQUENTIST = sorted(kind.value for kind in ExperimentType if not kind.is_bandit)
_BANDITS = sorted(kind.value for kind in ExperimentType if kind.is_bandit)
_CONTEXTUAL = sorted(kind.value for kind in ExperimentType if kind.has_contexts)
_AUTOFAILING = sorted(kind.value for kind in ExperimentType if Job.AUTOFAIL.applies_to(kind))
_LONGEST_WINDOW_HOURS = 87_600


class Experiment(models.Model):
    """Inserted as ``assigned``, ``committed`` once its definition is complete; ``abandoned`` is final."""

    id = IdField.with_prefix("exp_")
    datasource = models.ForeignKey(Datasource, on_delete=models.DO_NOTHING, related_name="experiments")
    datasource_table = models.TextField(null=True, blank=True)
    name = models.TextField(db_default="", blank=True)
    description = models.TextField(db_default="", blank=True)
    experiment_type = models.TextField(choices=[(kind.value, kind.value) for kind in ExperimentType])
    state = models.TextField(
        choices=[(state.value, state.value) for state in ExperimentState], db_default=ExperimentState.ASSIGNED.value
    )
    start_date = models.DateTimeField()
    end_date = models.DateTimeField()
    # True exactly when each assignment names the cluster its participant lives in.
    clustered = models.BooleanField(db_default=False)
    prior_type = models.TextField(choices=[(kind.value, kind.value) for kind in PriorType], null=True, blank=True)
    reward_type = models.TextField(choices=[(kind.value, kind.value) for kind in RewardType], null=True, blank=True)
    # Of one outcome around its mean, in the outcome's unit. NULL: estimated within arms.
    noise_sd = models.FloatField(null=True, blank=True)
    enable_autofail = models.BooleanField(db_default=False)
    autofail_window = models.IntegerField(db_default=24)  # hours
    autofail_outcome_value = models.FloatField(db_default=0.0)
    alpha = models.FloatField(db_default=0.05)
    power = models.FloatField(db_default=0.8)
    desired_n = models.IntegerField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=DatabaseNow())
    updated_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        db_table = "experiments"
        constraints = [
            models.CheckConstraint(
                name="experiments_kind_declared",
                condition=Q(experiment_type__in=sorted(kind.value for kind in ExperimentType)),
            ),
            models.CheckConstraint(
                name="experiments_state_declared", condition=Q(state__in=sorted(kind.value for kind in ExperimentState))
            ),
            models.CheckConstraint(
                name="experiments_dates_in_order",
                condition=Q(start_date__gte=_FIRST_INSTANT, end_date__gte=F("start_date"), end_date__lt=_LAST_INSTANT),
            ),
            models.CheckConstraint(
                name="experiments_prior_and_reward_of_type",
                condition=Q(experiment_type__in=_FREQUENTIST, prior_type__isnull=True, reward_type__isnull=True)
                | Q(
                    experiment_type__in=[kind for kind in _BANDITS if kind not in _CONTEXTUAL],
                    prior_type=PriorType.BETA.value,
                    prior_type__isnull=False,
                    reward_type=RewardType.BINARY.value,
                    reward_type__isnull=False,
                )
                | Q(
                    experiment_type__in=_BANDITS,
                    prior_type=PriorType.NORMAL.value,
                    prior_type__isnull=False,
                    reward_type__in=sorted(kind.value for kind in RewardType),
                    reward_type__isnull=False,
                ),
            ),
            models.CheckConstraint(
                name="experiments_noise_of_real_rewards",
                condition=Q(noise_sd__isnull=True)
                | (
                    Q(reward_type=RewardType.REAL_VALUED.value, reward_type__isnull=False, noise_sd__gt=0)
                    & Q(Finite("noise_sd"))
                ),
            ),
            models.CheckConstraint(
                name="experiments_autofail_of_online_bandits",
                condition=Q(enable_autofail=False) | Q(experiment_type__in=_AUTOFAILING),
            ),
            models.CheckConstraint(
                name="experiments_autofail_window_in_range",
                condition=Q(autofail_window__gte=1, autofail_window__lte=_LONGEST_WINDOW_HOURS),
            ),
            models.CheckConstraint(
                name="experiments_autofail_outcome_of_reward",
                condition=Q(Finite("autofail_outcome_value"))
                & (
                    Q(reward_type__isnull=True)
                    | ~Q(reward_type=RewardType.BINARY.value)
                    | Q(autofail_outcome_value__in=[0.0, 1.0])
                ),
            ),
            models.CheckConstraint(name="experiments_alpha_in_range", condition=Q(alpha__gt=0, alpha__lt=1)),
            models.CheckConstraint(name="experiments_power_in_range", condition=Q(power__gt=0, power__lt=1)),
            models.CheckConstraint(
                name="experiments_desired_n_positive", condition=Q(desired_n__isnull=True) | Q(desired_n__gt=0)
            ),
            models.CheckConstraint(
                name="experiments_clusters_of_frequentist",
                condition=Q(clustered=False) | Q(experiment_type__in=_FREQUENTIST),
            ),
        ]
        indexes = [
            # The scheduler looks at committed ones only.
            models.Index(name="experiments_committed", fields=["id"], condition=Q(state="committed")),
        ]
        triggers = [*triggers.EXPERIMENT_TRIGGERS, *schedule_triggers.EXPERIMENT_WAKE_UPS]

    def __str__(self) -> str:
        return self.name or self.id
