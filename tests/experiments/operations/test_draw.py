"""Drawing participants: from what is known now, once, and only while the experiment runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from experiments.errors import Conflict, ExperimentError, InvalidInput, NotFound
from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Arm, Context, Draw, Experiment
from experiments.operations.draw import draw_participant
from experiments.operations.record import record_outcomes
from tests.support.experiments import arms_of, make_experiment

pytestmark = pytest.mark.django_db

_MAB, _CMAB = ExperimentType.MAB_ONLINE, ExperimentType.CMAB_ONLINE
_REAL = {"prior_type": "normal", "reward_type": "real-valued"}


def _positions(experiment: Experiment, count: int, context: Sequence[float] | None = None) -> Counter[int]:
    rng = np.random.default_rng(11)
    return Counter(
        draw_participant(experiment.id, f"new {n}", context_vals=context, rng=rng).arm_position for n in range(count)
    )


def test_arms_that_nothing_tells_apart_are_drawn_alike() -> None:
    drawn = _positions(make_experiment(_MAB), 100)
    assert 30 <= drawn[1] <= 70 and drawn[1] + drawn[2] == 100


def _with_outcomes(experiment: Experiment, by_position: dict[int, Sequence[float]], context: Any = None) -> None:
    for arm in arms_of(experiment):
        outcomes = {f"{arm.position}-{n}": outcome for n, outcome in enumerate(by_position[arm.position])}
        Draw.objects.bulk_create(
            Draw(experiment=experiment, arm=arm, participant_id=participant, context_vals=context)
            for participant in outcomes
        )
        record_outcomes(experiment.id, outcomes)


@pytest.mark.parametrize("fields", [{}, {**_REAL, "noise_sd": 1.0}, _REAL, {"prior_type": "normal"}])
def test_outcomes_draw_participants_to_the_better_arm(fields: dict[str, Any]) -> None:
    experiment = make_experiment(_MAB, **fields)
    _with_outcomes(experiment, {1: [0.0, 1.0, 0.0, 0.0] * 15, 2: [1.0, 0.0, 1.0, 1.0] * 15})
    assert _positions(experiment, 30)[2] >= 28


@pytest.mark.parametrize("fields", [{"noise_sd": 1.0}, {}, {"reward_type": "binary"}])
def test_a_contextual_bandit_draws_by_what_is_known_at_the_context(fields: dict[str, Any]) -> None:
    experiment = make_experiment(_CMAB, contexts=1, **fields)
    _with_outcomes(experiment, {1: [0.0, 1.0, 0.0, 0.0] * 20, 2: [1.0, 0.0, 1.0, 1.0] * 20}, context=[1.0])
    assert _positions(experiment, 20, [1.0])[2] >= 19
    Draw.objects.filter(participant_id__startswith="new").delete()
    assert _positions(experiment, 20, [-1.0])[1] >= 19


def test_from_five_arms_on_a_tenth_goes_to_a_challenger() -> None:
    certain = [{"alpha_init": 1.0, "beta_init": 1e9}] * 4 + [{"alpha_init": 1e9, "beta_init": 1.0}]
    drawn = _positions(make_experiment(_MAB, arms=certain), 150)
    assert 120 <= drawn[5] <= 145


def test_without_any_outcome_the_priors_draw() -> None:
    arms = [{"mu_init": 0.0, "sigma_init": 1.0}, {"mu_init": 100.0, "sigma_init": 1.0}]
    for noise_sd in (1.0, None):
        experiment = make_experiment(_CMAB, arms=arms, contexts=1, noise_sd=noise_sd)
        assert _positions(experiment, 10, [1.0]) == {2: 10}


def test_a_participant_keeps_the_arm_at_any_context_and_after_the_end() -> None:
    experiment = make_experiment(_CMAB, contexts=2)
    first = draw_participant(experiment.id, "p", context_vals=[1.0, 2.0])
    assert (first.replayed, first.context_vals) == (False, (1.0, 2.0))
    for fields in ({"end_date": datetime.now(UTC) - timedelta(hours=1)}, {"state": "abandoned"}):
        Experiment.objects.filter(pk=experiment.pk).update(**fields)
        again = draw_participant(experiment.id, "p", context_vals=[9.0])
        assert (again.replayed, again.arm_id, again.context_vals) == (True, first.arm_id, (1.0, 2.0))
    assert Draw.objects.count() == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"state": ExperimentState.ASSIGNED},
        {"state": ExperimentState.ABANDONED},
        {"start_date": datetime.now(UTC) + timedelta(hours=1)},
        {"end_date": datetime.now(UTC) - timedelta(hours=1)},
    ],
)
def test_nobody_new_is_drawn_before_the_commit_or_outside_the_dates(fields: dict[str, Any]) -> None:
    experiment = make_experiment(_MAB, **fields)
    with pytest.raises(Conflict):
        draw_participant(experiment.id, "p")
    assert not Draw.objects.exists()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (None, "takes 2 numbers (age, member), got 0"),
        ([1.0], "takes 2 numbers (age, member), got 1"),
        ([1.0, 1.0, 1.0], "got 3"),
        ([float("nan"), 1.0], "context_vals[0]: age must be a finite number"),
        ([1e60, 0.5], "context_vals[1]: member is binary: it must be 0 or 1"),
        (["1", 1.0], "context_vals[0]: age must be a finite number"),
    ],
)
def test_contexts_that_do_not_fit_are_told(values: Any, told: str) -> None:
    experiment = make_experiment(_CMAB, contexts=0, state=ExperimentState.ASSIGNED)
    Context.objects.create(experiment=experiment, position=1, name="age")
    Context.objects.create(experiment=experiment, position=2, name="member", value_type="binary")
    Experiment.objects.filter(pk=experiment.pk).update(state="committed")
    with pytest.raises(InvalidInput) as refusal:
        draw_participant(experiment.id, "p", context_vals=values)
    assert told in str(refusal.value)


def test_a_context_is_refused_where_there_is_none() -> None:
    with pytest.raises(InvalidInput, match="takes none, got 1"):
        draw_participant(make_experiment(_MAB).id, "p", context_vals=[1.0])


@pytest.mark.parametrize(
    ("experiment_type", "participant", "error"),
    [
        (ExperimentType.FREQ_ONLINE, "p", InvalidInput),
        (None, "p", NotFound),
        (_MAB, "", InvalidInput),
        (_MAB, "a\0", InvalidInput),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    experiment_type: ExperimentType | None, participant: str, error: type[ExperimentError]
) -> None:
    id = make_experiment(experiment_type).id if experiment_type else "exp_none"
    with pytest.raises(error):
        draw_participant(id, participant)


def test_an_arm_without_outcomes_keeps_drawing_by_its_prior() -> None:
    experiment = make_experiment(_CMAB, contexts=1, noise_sd=1.0)
    Draw.objects.create(experiment=experiment, arm=arms_of(experiment)[0], participant_id="p", context_vals=[1.0])
    record_outcomes(experiment.id, {"p": -50.0})
    assert Arm.objects.get(experiment=experiment, position=2).mu is None
    assert _positions(experiment, 10, [1.0]) == {2: 10}
