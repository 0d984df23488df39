"""Every bandit reference case from rows to the snapshot's numbers."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.jobs import bandit, snapshot_data
from experiments.jobs.definition import read_definition
from experiments.stats.summary import ArmSummary
from tests.support.golden import Case, Value, assert_close
from tests.support.golden_bandits import cases, experiment_of, record

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_snapshot_says_what_the_reference_says(case: Case) -> None:
    experiment = experiment_of(case)
    record(case, experiment)
    definition = read_definition(experiment.id)
    analysis = bandit.analyze(definition)
    data = snapshot_data.of_bandit(definition, analysis, at=experiment.created_at)
    expected = case.expected
    assert data["counts"]["n_draws"] == expected["n_draws"]
    assert data["counts"]["n_outcomes"] == expected["n_outcomes"]
    assert data["counts"]["n_pending"] == expected["n_pending"]
    assert_close(case, data["counts"]["fraction_autofailed"] or 0.0, expected["fraction_autofailed"] or 0.0)
    assert analysis.level == case.inputs["credible_level"]
    overall = analysis.summary.overall
    assert overall is not None
    for arm, summary, shown in zip(case.inputs["arms"], overall.arms, data["arm_analyses"], strict=True):
        _assert_arm(case, summary, expected["arms"][arm["arm"]], shown)


def _assert_arm(case: Case, got: ArmSummary, expected: dict[str, Any], shown: dict[str, Any]) -> None:
    for name in {"alpha", "beta", "mu", "covariance"} & set(expected):
        assert_close(case, shown[name], expected[name], what=name)
    # There a logistic arm is evaluated at the mean context; a snapshot averages, which is another number.
    averaged = "posterior_marginal_mean" in expected
    for side, prefix in (("prior", "prior_pred"), ("posterior", "post_pred")):
        at = {} if averaged else _over_all(expected[side])
        prediction = getattr(got, side)
        for name in ("mean", "parameter_sd", "predictive_sd", "ci"):
            if at.get(name) is not None:
                assert_close(case, getattr(prediction, name), at[name], Value.ESTIMATE, what=f"{side} {name}")
        assert shown[f"{prefix}_mean"] == prediction.mean
        assert (shown[f"{prefix}_ci_lower"], shown[f"{prefix}_ci_upper"]) == (prediction.ci or (None, None))
    if averaged:
        assert_close(case, got.posterior.mean, expected["posterior_marginal_mean"], what="marginal mean")
    for name in ("p_best", "expected_loss"):
        if not averaged and name in expected and (value := _over_all(expected[name])) is not None:
            assert_close(case, getattr(got, name), value, Value.P_BEST, what=name)


def _over_all(by_context: Any) -> Any:
    """The entry without contexts, or that of the average over draws; empty where the reference has only others."""
    if not isinstance(by_context, dict):
        return by_context
    for name in ("constant", "mean_over_draws"):
        if name in by_context:
            return by_context[name]
    return by_context if "mean" in by_context else {}
