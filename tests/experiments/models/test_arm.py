"""What the database refuses of arms, contexts and fields: numbers out of range, second baselines, late changes."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Arm, ArmAssignment, Context, ExperimentField, ExperimentFilter
from tests.support.experiments import arms_of, make_experiment
from tests.support.refusals import refused_by

pytestmark = pytest.mark.django_db

_FREQ, _MAB, _CMAB = ExperimentType.FREQ_ONLINE, ExperimentType.MAB_ONLINE, ExperimentType.CMAB_ONLINE
_NAN, _INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"position": 1}, "arms_one_per_position"),
        ({"position": 0}, "arms_position_from_one"),
        ({"name": "arm 1"}, "arms_one_per_name"),
        ({"name": ""}, "arms_named"),
        ({"arm_weight": 0.0}, "arms_weight_in_range"),
        ({"arm_weight": -1.0}, "arms_weight_in_range"),
        ({"arm_weight": _NAN}, "arms_weight_in_range"),
        ({"arm_weight": _INF}, "arms_weight_in_range"),
        ({"alpha_init": 1.0}, "arms_prior_of_one_kind"),
        ({"alpha_init": 1.0, "beta_init": 1.0, "mu_init": 0.0, "sigma_init": 1.0}, "arms_prior_of_one_kind"),
        ({"alpha_init": 0.0, "beta_init": 1.0}, "arms_prior_in_range"),
        ({"alpha_init": 1.0, "beta_init": _INF}, "arms_prior_in_range"),
        ({"mu_init": 0.0, "sigma_init": 0.0}, "arms_prior_in_range"),
        ({"mu_init": 0.0, "sigma_init": _NAN}, "arms_prior_in_range"),
        ({"mu_init": _NAN, "sigma_init": 1.0}, "arms_prior_in_range"),
        ({"alpha": 1.0}, "arms_posterior_of_one_kind"),
        ({"alpha": 1.0, "beta": 1.0, "mu": [0.0], "covariance": [[1.0]]}, "arms_posterior_of_one_kind"),
        ({"mu": [0.0]}, "arms_posterior_of_one_kind"),
        ({"mu": [_NAN], "covariance": [[1.0]]}, "arms_posterior_finite"),
        ({"mu": [0.0, 0.0], "covariance": [[1.0, 0.0]]}, "arms_posterior_finite"),
        ({"mu": [0.0], "covariance": [[_INF]]}, "arms_posterior_finite"),
    ],
)
def test_arms_that_make_no_sense_are_refused(fields: dict[str, Any], constraint: str) -> None:
    experiment = make_experiment(_FREQ, state=ExperimentState.ASSIGNED)
    with refused_by(constraint):
        Arm.objects.create(**{"experiment": experiment, "position": 3, "name": "c", **fields})


@pytest.mark.parametrize("state", [ExperimentState.COMMITTED, ExperimentState.ABANDONED])
def test_arms_are_sealed_once_the_experiment_is_no_longer_a_draft(state: ExperimentState) -> None:
    experiment = make_experiment(_MAB, state=state)
    baseline, _ = arms_of(experiment)
    row = Arm.objects.filter(pk=baseline.pk)
    with refused_by("arms_sealed"):
        Arm.objects.create(experiment=experiment, position=3, name="c", alpha_init=1.0, beta_init=1.0)
    with refused_by("arms_sealed"):
        row.delete()
    for change in ({"arm_weight": 2.0}, {"position": 7}, {"alpha_init": 2.0}, {"beta_init": 2.0}):
        with refused_by("arms_sealed"):
            row.update(**change)

    row.update(name="another name", alpha=3.0, beta=4.0)


def test_an_arm_stays_in_its_experiment() -> None:
    arm = arms_of(make_experiment(_FREQ, state=ExperimentState.ASSIGNED))[0]
    other = make_experiment(_FREQ, state=ExperimentState.ASSIGNED, arms=0)
    with refused_by("arms_stay"):
        Arm.objects.filter(pk=arm.pk).update(experiment=other)


def test_an_arm_with_participants_is_not_deleted() -> None:
    experiment = make_experiment(ExperimentType.FREQ_PREASSIGNED, state=ExperimentState.ASSIGNED)
    used, free = arms_of(experiment)
    ArmAssignment.objects.create(experiment=experiment, arm=used, participant_id="p")
    with refused_by("arms_kept_by_participants"):
        Arm.objects.filter(pk=used.pk).delete()

    Arm.objects.filter(pk=free.pk).delete()


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"position": 1}, "context_one_per_position"),
        ({"position": 0}, "context_position_from_one"),
        ({"name": "context 1"}, "context_one_per_name"),
        ({"name": ""}, "context_named"),
        ({"value_type": "text"}, "context_value_type_declared"),
    ],
)
def test_contexts_that_make_no_sense_are_refused(fields: dict[str, Any], constraint: str) -> None:
    experiment = make_experiment(_CMAB, state=ExperimentState.ASSIGNED)
    with refused_by(constraint):
        Context.objects.create(**{"experiment": experiment, "position": 4, "name": "d", **fields})


def test_contexts_are_sealed_by_the_commit() -> None:
    experiment = make_experiment(_CMAB)
    row = Context.objects.filter(experiment=experiment, position=1)
    with refused_by("context_sealed"):
        Context.objects.create(experiment=experiment, position=4, name="d")
    with refused_by("context_sealed"):
        row.delete()
    with refused_by("context_sealed"):
        row.update(position=9)
    row.update(name="age in decades")


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"use": "unique_id", "field_name": "other"}, "experiment_fields_one_unique_id"),
        ({"use": "metric", "field_name": "revenue"}, "experiment_fields_once"),
        ({"use": "colour", "field_name": "x"}, "experiment_fields_use_declared"),
        ({"use": "metric", "field_name": ""}, "experiment_fields_named"),
    ],
)
def test_fields_that_make_no_sense_are_refused(fields: dict[str, str], constraint: str) -> None:
    experiment = make_experiment(_FREQ)
    with refused_by(constraint):
        ExperimentField.objects.create(experiment=experiment, **fields)


@pytest.mark.parametrize(
    ("relation", "value", "constraint"),
    [
        ("like", ["a"], "experiment_filters_relation_declared"),
        ("includes", "a", "experiment_filters_value_of_relation"),
        ("includes", [], "experiment_filters_value_of_relation"),
        ("between", [1], "experiment_filters_value_of_relation"),
        ("between", {"from": 1}, "experiment_filters_value_of_relation"),
    ],
)
def test_filters_that_make_no_sense_are_refused(relation: str, value: Any, constraint: str) -> None:
    experiment = make_experiment(_FREQ)
    ExperimentFilter.objects.create(experiment=experiment, field_name="age", relation="between", value=[18, None])
    with refused_by(constraint):
        ExperimentFilter.objects.create(experiment=experiment, field_name="age", relation=relation, value=value)
