"""An experiment of each type can be made, committed and reached from its parts."""

from __future__ import annotations

import pytest

from experiments.kinds import ExperimentType
from experiments.models import ArmAssignment, Draw
from tests.support.experiments import arms_of, make_experiment

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("experiment_type", ExperimentType)
def test_an_experiment_of_each_type_is_complete_and_takes_participants(experiment_type: ExperimentType) -> None:
    experiment = make_experiment(experiment_type)
    baseline, _ = arms_of(experiment)

    if experiment_type.is_bandit:
        contexts = [1.0, 0.5, -2.0] if experiment_type.has_contexts else None
        Draw.objects.create(experiment=experiment, arm=baseline, participant_id="p", context_vals=contexts)
    else:
        ArmAssignment.objects.create(experiment=experiment, arm=baseline, participant_id="p")

    assert experiment.state == "committed"
