"""Assigning participants: by weights, once, and only while the experiment runs."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from experiments.errors import Conflict, ExperimentError, InvalidInput, NotFound
from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import ArmAssignment, Experiment
from experiments.operations.assign import assign_participant
from tests.support.experiments import make_experiment

pytestmark = pytest.mark.django_db

_FREQ = ExperimentType.FREQ_ONLINE


def test_arms_are_given_as_their_weights_say() -> None:
    experiment = make_experiment(_FREQ, arms=[{"arm_weight": 1.0}, {"arm_weight": 3.0}, {"arm_weight": 0.001}])
    rng = random.Random(7)  # noqa: S311 - the same choices in every run
    given = Counter(assign_participant(experiment.id, str(n), rng=rng).arm_position for n in range(400))
    assert 70 <= given[1] <= 130 and 270 <= given[2] <= 330 and given[3] <= 3
    assert ArmAssignment.objects.filter(experiment=experiment).count() == 400


def test_the_same_participant_keeps_the_arm_also_after_the_end() -> None:
    experiment = make_experiment(_FREQ, arms=5)
    first = assign_participant(experiment.id, "p")
    assert not first.replayed
    for fields in ({"name": "renamed"}, {"end_date": datetime.now(UTC) - timedelta(hours=1)}, {"state": "abandoned"}):
        Experiment.objects.filter(pk=experiment.pk).update(**fields)
        again = assign_participant(experiment.id, "p")
        assert again.replayed and again.arm_id == first.arm_id


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"state": ExperimentState.ASSIGNED}, "state"),
        ({"state": ExperimentState.ABANDONED}, "state"),
        ({"start_date": datetime.now(UTC) + timedelta(hours=1)}, "start_date"),
        ({"end_date": datetime.now(UTC) - timedelta(hours=1)}, "end_date"),
    ],
)
def test_nobody_new_comes_before_the_commit_or_outside_the_dates(fields: dict[str, Any], field: str) -> None:
    experiment = make_experiment(_FREQ, **fields)
    with pytest.raises(Conflict) as refusal:
        assign_participant(experiment.id, "p")
    assert refusal.value.field == field
    assert not ArmAssignment.objects.exists()


@pytest.mark.parametrize(
    ("participant", "cluster", "field"),
    [
        ("", None, "participant_id"),
        ("x" * 256, None, "participant_id"),
        ("a\0b", None, "participant_id"),
        ("\ud800", None, "participant_id"),
        ("p", "c", "cluster_id"),
    ],
)
def test_ids_that_cannot_be_are_refused(participant: str, cluster: str | None, field: str) -> None:
    experiment = make_experiment(_FREQ)
    with pytest.raises(InvalidInput) as refusal:
        assign_participant(experiment.id, participant, cluster_id=cluster)
    assert refusal.value.field == field


def test_a_clustered_experiment_needs_the_cluster_and_keeps_it() -> None:
    experiment = make_experiment(_FREQ, clustered=True)
    first = assign_participant(experiment.id, "p", cluster_id="c")
    assert (first.cluster_id, assign_participant(experiment.id, "p", cluster_id="c").replayed) == ("c", True)
    for wrong in (None, "", "d"):
        with pytest.raises(InvalidInput) as refusal:
            assign_participant(experiment.id, "p", cluster_id=wrong)
        assert refusal.value.field == "cluster_id"


@pytest.mark.parametrize(("experiment_type", "error"), [(ExperimentType.MAB_ONLINE, InvalidInput), (None, NotFound)])
def test_bandits_and_unknown_experiments_assign_nobody(
    experiment_type: ExperimentType | None, error: type[ExperimentError]
) -> None:
    id = make_experiment(experiment_type).id if experiment_type else "exp_none"
    with pytest.raises(error):
        assign_participant(id, "p")
