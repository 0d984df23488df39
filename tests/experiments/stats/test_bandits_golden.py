"""Every bandit case of the reference, whole and in each of its orders of arrival."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from experiments.stats.gaussian_sums import GaussianSums
from experiments.stats.laplace import ContextCount, logistic_posterior
from experiments.stats.noise import Noise
from experiments.stats.posterior import BetaPosterior, NormalPosterior, Posterior, gaussian_posterior
from experiments.stats.predictions import Prediction
from experiments.stats.priors import NormalPrior
from experiments.stats.summary import ArmSummary, ContextSummary, summarize
from tests.experiments.stats.bandit_cases import (
    Draw,
    beliefs_of,
    counts_of,
    drawn_contexts,
    observed,
    prior_of,
    sums_of,
)
from tests.support.golden import Case, Value, assert_close, load

BETA, GAUSSIAN, LOGISTIC = load("bandit_beta"), load("bandit_gaussian"), load("bandit_logistic")
ORDERED = [case for case in GAUSSIAN + LOGISTIC if case.inputs.get("equivalent_orders")]


def test_there_are_twelve_cases_and_three_with_orders() -> None:
    assert len(BETA + GAUSSIAN + LOGISTIC) == 12
    assert len(ORDERED) == 3


@pytest.mark.parametrize("case", BETA + GAUSSIAN + LOGISTIC, ids=str)
def test_posterior_agrees(case: Case) -> None:
    for arm, belief in zip(case.inputs["arms"], beliefs_of(case), strict=True):
        _assert_posterior(case, arm["arm"], belief.posterior)


@pytest.mark.parametrize("case", BETA, ids=str)
def test_beta_summary_agrees(case: Case) -> None:
    summary = summarize(beliefs_of(case), level=case.inputs["credible_level"])
    assert summary.overall is not None
    for arm, got in zip(case.inputs["arms"], summary.overall.arms, strict=True):
        expected = case.expected["arms"][arm["arm"]]
        _assert_arm(
            case, got, {key: expected[key] for key in ("prior", "posterior", "p_best", "expected_loss")}, arm["arm"]
        )


@pytest.mark.parametrize("case", GAUSSIAN + LOGISTIC, ids=str)
def test_summary_at_each_evaluation_context_agrees(case: Case) -> None:
    contexts = {name: tuple(x) for name, x in case.expected.get("evaluation_contexts", {"constant": (1.0,)}).items()}
    summary = summarize(
        beliefs_of(case),
        level=case.inputs["credible_level"],
        draws=drawn_contexts(case),
        at=list(contexts.values()),
    )
    for name, got in zip(contexts, summary.at, strict=True):
        _assert_context(case, got, name)


@pytest.mark.parametrize("case", [case for case in GAUSSIAN if "contexts" in case.inputs], ids=str)
def test_linear_average_over_draws_agrees(case: Case) -> None:
    summary = summarize(beliefs_of(case), draws=drawn_contexts(case))
    assert summary.overall is not None
    _assert_context(case, summary.overall, "mean_over_draws")


@pytest.mark.parametrize("case", [case for case in GAUSSIAN + LOGISTIC if "contexts" not in case.inputs], ids=str)
def test_overall_summary_without_contexts_agrees(case: Case) -> None:
    summary = summarize(beliefs_of(case))
    assert summary.overall is not None
    _assert_context(case, summary.overall, "constant")


def test_logistic_average_over_draws_is_the_marginal_mean_and_not_that_at_the_mean_context() -> None:
    (case,) = (case for case in LOGISTIC if "contexts" in case.inputs)
    summary = summarize(beliefs_of(case), draws=drawn_contexts(case))
    assert summary.overall is not None
    for arm, got in zip(case.inputs["arms"], summary.overall.arms, strict=True):
        expected = case.expected["arms"][arm["arm"]]
        assert_close(case, got.posterior.mean, expected["posterior_marginal_mean"], Value.ESTIMATE, what=arm["arm"])
        at_the_mean_context = expected["posterior"]["mean_over_draws"]["mean"]
        assert got.posterior.mean is not None
        assert abs(got.posterior.mean - at_the_mean_context) > 0.005


@pytest.mark.parametrize("case", ORDERED, ids=str)
def test_every_order_and_batching_gives_the_same_bits(case: Case) -> None:
    for arm in case.inputs["arms"]:
        prior = prior_of(case, arm)
        assert isinstance(prior, NormalPrior)
        results = set()
        for order in case.inputs["equivalent_orders"]:
            rows = observed(case, arm["arm"], [case.inputs["draws"][index] for index in order])
            for size in (1, 3, len(rows)):
                results.add(_in_batches(case, prior, rows, size))
        assert len(results) == 1
        _assert_posterior(case, arm["arm"], results.pop())


def _in_batches(case: Case, prior: NormalPrior, rows: list[Draw], size: int) -> NormalPosterior:
    batches = [rows[begin : begin + size] for begin in range(0, len(rows), size)]
    if case.kind == "bandit_logistic":
        counts: list[ContextCount] = []
        for batch in batches:
            counts += counts_of(batch)
        return logistic_posterior(prior, counts)
    sums = GaussianSums.empty(prior.dimensions)
    for batch in batches:
        sums = sums.merge(sums_of(case, batch))
    return gaussian_posterior(prior, sums, noise=Noise.given(case.inputs["noise_sd"]))


def _assert_posterior(case: Case, arm: str, got: Posterior) -> None:
    expected = case.expected["arms"][arm]
    assert got.n == expected["n_outcomes"]
    if isinstance(got, BetaPosterior):
        assert (got.alpha, got.beta) == (expected["alpha"], expected["beta"])
    else:
        assert_close(case, got.mu, expected["mu"], what=f"{arm} mu")
        assert_close(case, got.covariance, expected["covariance"], what=f"{arm} covariance")


def _assert_context(case: Case, got: ContextSummary, name: str) -> None:
    for arm, summary in zip(case.inputs["arms"], got.arms, strict=True):
        expected = case.expected["arms"][arm["arm"]]
        keys = [key for key in ("prior", "posterior", "p_best", "expected_loss") if key in expected]
        _assert_arm(case, summary, {key: expected[key][name] for key in keys}, f"{arm['arm']} at {name}")


def _assert_arm(case: Case, got: ArmSummary, expected: Mapping[str, Any], what: str) -> None:
    for which, prediction in (("prior", got.prior), ("posterior", got.posterior)):
        _assert_prediction(case, prediction, expected[which], f"{what} {which}")
    # The quadrature reaches far more digits than the reference asks for.
    assert got.p_best == pytest.approx(expected["p_best"], rel=1e-8, abs=1e-12), what
    assert_close(case, got.p_best, expected["p_best"], Value.P_BEST, what=what)
    if "expected_loss" in expected:
        assert_close(case, got.expected_loss, expected["expected_loss"], Value.P_BEST, what=what)
        assert got.expected_loss == pytest.approx(expected["expected_loss"], rel=1e-8), what


def _assert_prediction(case: Case, got: Prediction, expected: Mapping[str, Any], what: str) -> None:
    for key, value in expected.items():
        assert_close(case, getattr(got, key), value, Value.ESTIMATE, what=f"{what} {key}")
