"""The constraints hold in Python too, as forms ask them before they save."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import models

from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Arm, Draw, ExperimentFilter
from tests.support.experiments import arms_of, make_experiment

pytestmark = pytest.mark.django_db


def _faults(row: models.Model) -> str:
    with pytest.raises(ValidationError) as refusal:
        row.validate_constraints()
    return str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"sigma_init": float("inf"), "mu_init": 0.0}, "arms_prior_in_range"),
        ({"mu": [float("nan")], "covariance": [[1.0]]}, "arms_posterior_finite"),
        ({"arm_weight": 0.0}, "arms_weight_in_range"),
    ],
)
def test_an_arm_that_the_database_would_refuse_is_refused_by_its_form(fields: dict[str, Any], constraint: str) -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE, state=ExperimentState.ASSIGNED)
    assert constraint in _faults(Arm(experiment=experiment, position=3, name="c", **{"arm_weight": 1.0, **fields}))


def test_every_part_of_every_type_satisfies_its_constraints_in_python() -> None:
    for experiment_type in ExperimentType:
        experiment = make_experiment(experiment_type)
        experiment.validate_constraints()
        for arm in arms_of(experiment):
            arm.validate_constraints()


def test_lists_are_judged_in_python_as_in_the_database() -> None:
    experiment = make_experiment(ExperimentType.CMAB_ONLINE)
    draw = Draw(experiment=experiment, arm=arms_of(experiment)[0], participant_id="p")
    draw.context_vals = [1.0, float("inf")]
    assert "draws_context_finite" in _faults(draw)
    wrong = ExperimentFilter(experiment=experiment, field_name="age", relation="between", value=[1])
    assert "experiment_filters_value_of_relation" in _faults(wrong)
