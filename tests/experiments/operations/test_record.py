"""Recording outcomes: each once, wrong ones refused one by one, and posteriors of all outcomes, however they came."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.db import connection

from experiments.errors import Conflict, InvalidInput, NotFound
from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Arm, Draw, Experiment
from experiments.operations.posteriors import recompute_posteriors
from experiments.operations.record import Recorded, record_outcome, record_outcomes
from tests.support.experiments import arms_of, make_experiment

pytestmark = pytest.mark.django_db

_MAB, _CMAB = ExperimentType.MAB_ONLINE, ExperimentType.CMAB_ONLINE
_REAL: dict[str, Any] = {"prior_type": "normal", "reward_type": "real-valued"}
_NAN, _INF = float("nan"), float("inf")


def _drawn(experiment_type: ExperimentType = _MAB, *, draws: int = 6, **fields: Any) -> Experiment:
    """With participants p0, p1, ... who take the arms in turn."""
    experiment = make_experiment(experiment_type, **fields)
    arms = arms_of(experiment)
    Draw.objects.bulk_create(
        Draw(
            experiment=experiment,
            arm=arms[number % len(arms)],
            participant_id=f"p{number}",
            context_vals=[1.0, number / 7, -number % 3 - 0.5] if experiment_type.has_contexts else None,
        )
        for number in range(draws)
    )
    return experiment


def _draw(experiment: Experiment, participant: str) -> Draw:
    return Draw.objects.get(experiment=experiment, participant_id=participant)


def _posteriors(experiment: Experiment) -> list[tuple[Any, ...]]:
    return [(arm.alpha, arm.beta, arm.mu, arm.covariance, arm.n_outcomes) for arm in arms_of(experiment)]


def test_an_outcome_is_stored_with_the_posterior_after_it() -> None:
    experiment = _drawn()
    assert record_outcome(experiment.id, "p0", 1) == Recorded(participant_id="p0", replayed=False)
    draw = _draw(experiment, "p0")
    assert (draw.outcome, draw.autofailed_outcome, draw.current_alpha, draw.current_beta) == (1.0, False, 2.0, 1.0)
    assert draw.observed_at is not None
    assert _posteriors(experiment)[0] == (2.0, 1.0, None, None, 1)


def test_the_same_outcome_again_is_a_replay_and_another_a_conflict() -> None:
    experiment = _drawn()
    record_outcome(experiment.id, "p0", 1)
    assert record_outcome(experiment.id, "p0", 1.0).replayed
    with pytest.raises(Conflict, match="the outcome 1 was recorded before and stays; 0 is another"):
        record_outcome(experiment.id, "p0", 0)
    assert _posteriors(experiment)[0] == (2.0, 1.0, None, None, 1)


def test_a_real_outcome_after_the_time_was_up_is_a_conflict_that_says_so() -> None:
    experiment = _drawn()
    record_outcome(experiment.id, "p0", 0, autofailed=True)
    assert _draw(experiment, "p0").autofailed_outcome is True
    with pytest.raises(Conflict, match="filled in because its time was up"):
        record_outcome(experiment.id, "p0", 1)


def test_failing_a_draw_that_has_an_outcome_changes_nothing() -> None:
    experiment = _drawn()
    record_outcome(experiment.id, "p0", 1)
    report = record_outcomes(experiment.id, {"p0": 0, "p1": 0}, autofailed=True)
    assert (report.applied, report.already_had, report.refused) == (1, 1, ())
    assert (_draw(experiment, "p0").outcome, _draw(experiment, "p1").autofailed_outcome) == (1.0, True)


def test_wrong_outcomes_are_refused_one_by_one_and_the_rest_is_recorded() -> None:
    experiment = _drawn(draws=12)
    record_outcome(experiment.id, "p9", 1)
    outcomes: dict[str, Any] = {
        "p0": 0.5, "p1": 2, "p2": -1, "p3": _NAN, "p4": None, "p5": "1", "p6": True, "p7": Decimal(0), "p8": _INF,
        "p9": 0, "p10": 10**400, "stranger": 1, "nul\0": 1, "\ud800": 1,
    }  # fmt: skip
    report = record_outcomes(experiment.id, outcomes)

    assert (report.applied, report.already_had) == (2, 0)
    assert set(report.unknown) == {"stranger", "nul\0", "\ud800"}
    assert {each.participant_id: each.code for each in report.refused} == {
        **{f"p{number}": "invalid" for number in (0, 1, 2, 3, 4, 5, 8, 10)},
        "p9": "conflict",
    }
    assert Draw.objects.filter(outcome__isnull=False).count() == 3
    posteriors = _posteriors(experiment)
    assert sum(alpha + beta - 2 for alpha, beta, *_ in posteriors) == 3

    again = record_outcomes(experiment.id, outcomes)
    assert (again.applied, again.already_had) == (0, 2)
    assert _posteriors(experiment) == posteriors


def test_the_single_call_says_what_is_wrong() -> None:
    experiment = _drawn()
    with pytest.raises(NotFound, match="no draw of 'stranger'"):
        record_outcome(experiment.id, "stranger", 1)
    with pytest.raises(InvalidInput, match=r"must be 0 or 1, not 0\.5"):
        record_outcome(experiment.id, "p0", 0.5)
    with pytest.raises(NotFound):
        record_outcome("exp_none", "p0", 1)
    with pytest.raises(InvalidInput, match="no bandit"):
        record_outcome(make_experiment(ExperimentType.FREQ_ONLINE).id, "p0", 1)


def test_an_abandoned_experiment_takes_no_outcomes() -> None:
    experiment = _drawn()
    Experiment.objects.filter(pk=experiment.pk).update(state=ExperimentState.ABANDONED.value)
    with pytest.raises(Conflict, match="abandoned"):
        record_outcome(experiment.id, "p0", 1)


@pytest.mark.parametrize(
    ("experiment_type", "fields"),
    [
        (_MAB, {}),
        (_MAB, {**_REAL, "noise_sd": 2.5}),
        (_MAB, _REAL),
        (_MAB, {"prior_type": "normal"}),
        (_CMAB, {"noise_sd": 0.7}),
        (_CMAB, {}),
        (_CMAB, {"reward_type": "binary"}),
    ],
)
def test_order_and_batches_do_not_change_a_bit_of_the_posterior(
    experiment_type: ExperimentType, fields: dict[str, Any]
) -> None:
    one, other = (_drawn(experiment_type, draws=30, **fields) for _ in range(2))
    binary = one.reward_type == "binary"
    outcomes = {f"p{n}": float(n % 3 == 0) if binary else 0.1 * n * n - 1e6 / (n + 1) for n in range(30)}
    for participant in outcomes:
        record_outcome(one.id, participant, outcomes[participant])
    backwards = dict(reversed(outcomes.items()))
    for start in (0, 2, 17):
        batch = dict(list(backwards.items())[start : {0: 2, 2: 17, 17: 30}[start]])
        assert record_outcomes(other.id, batch).applied == len(batch)

    assert _posteriors(one) == _posteriors(other)
    assert recompute_posteriors(one.id).changed == ()


def test_estimated_noise_carries_an_outcome_over_to_the_other_arms() -> None:
    experiment = _drawn(**_REAL)
    for participant, outcome in (("p0", 1.0), ("p1", 5.0), ("p2", 3.0), ("p3", 6.0)):
        record_outcome(experiment.id, participant, outcome)
    before = _posteriors(experiment)
    record_outcome(experiment.id, "p4", 40.0)
    after = _posteriors(experiment)
    assert after[1][3] != before[1][3] and after[1][4] == before[1][4] == 2


def test_the_draws_of_one_batch_have_the_posterior_after_the_batch() -> None:
    experiment = _drawn()
    record_outcomes(experiment.id, {"p0": 1, "p2": 0, "p1": 1})
    assert [_draw(experiment, p).current_alpha for p in ("p0", "p2", "p1")] == [2.0, 2.0, 2.0]
    assert [_draw(experiment, p).current_beta for p in ("p0", "p2", "p1")] == [2.0, 2.0, 1.0]
    record_outcome(experiment.id, "p4", 1)
    assert _draw(experiment, "p0").current_alpha == 2.0


def test_outcomes_written_by_plain_sql_count_from_the_next_on() -> None:
    experiment = _drawn()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE draws SET outcome = 1, autofailed_outcome = false, observed_at = now() WHERE participant_id = 'p0'"
        )
    record_outcome(experiment.id, "p2", 1)
    assert _posteriors(experiment)[0] == (3.0, 1.0, None, None, 2)


def test_recomputing_mends_whatever_the_columns_said() -> None:
    experiment = _drawn(_CMAB, noise_sd=1.0)
    record_outcomes(experiment.id, {"p0": 1.5, "p1": 2.5, "p2": -3.5})
    right = _posteriors(experiment)
    baseline, other = arms_of(experiment)
    Arm.objects.filter(pk=baseline.pk).update(mu=[0.0, 0.0, 9.0], sum_y=Decimal(7), n_outcomes=1)
    recomputed = recompute_posteriors(experiment.id)
    assert (recomputed.arms, recomputed.changed) == (2, (baseline.id,))
    assert _posteriors(experiment) == right
    Arm.objects.filter(pk=other.pk).update(sum_xx=None)
    assert recompute_posteriors(experiment.id).changed == (other.id,)


def test_outcomes_in_the_millions_and_near_the_limits_of_doubles_are_recorded() -> None:
    experiment = _drawn(**_REAL, noise_sd=1e5)
    record_outcomes(experiment.id, {"p0": 3.2e6, "p2": 3.4e6, "p1": 1e308, "p3": 5e-324})
    mu, covariance = _posteriors(experiment)[0][2:4]
    precision = 1 / 4 + 2 / 1e10
    assert mu == [pytest.approx(6.6e6 / 1e10 / precision, rel=1e-12)]
    assert covariance == [[pytest.approx(1 / precision, rel=1e-12)]]
