"""Predictions at a context and averaged over draws: moments, quantiles, degrees of freedom, and what cannot be said."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import expit

from experiments.stats.averages import Contexts, DrawnContext, average_probability, latent_over
from experiments.stats.gaussian_sums import GaussianSums
from experiments.stats.laplace import ContextCount, logistic_posterior
from experiments.stats.noise import Noise, NoiseSource, estimate_noise
from experiments.stats.posterior import BetaPosterior, NormalPosterior, beta_posterior, gaussian_posterior
from experiments.stats.predictions import Latent, latent_at, predict, predict_rate
from experiments.stats.priors import BetaPrior, NormalPrior
from experiments.stats.summary import ArmBelief, summarize


def _belief(prior: NormalPrior, sums: GaussianSums, noise: Noise) -> ArmBelief:
    return ArmBelief(prior=prior, posterior=gaussian_posterior(prior, sums, noise=noise))


def _logistic(counts: list[ContextCount], *, dimensions: int = 1, sd: float = 1.5) -> NormalPosterior:
    return logistic_posterior(NormalPrior(mean=0.0, sd=sd, dimensions=dimensions), counts)


@pytest.mark.parametrize(("mean", "sd"), [(0.3, 1e-6), (-0.5, 0.4), (2.0, 3.0), (-1.0, 40.0), (0.0, 1e6), (-30.0, 2.0)])
def test_moments_of_probabilities_agree_with_scipy(mean: float, sd: float) -> None:
    got = predict(Latent(mean=mean, sd=sd, df=math.inf, logit=True), noise_sd=None, level=0.9)
    points = sorted(
        {-8.5, -3.0, 0.0, 3.0, 8.5, *(z for z in ((c - mean) / sd for c in (-40, -5, 0, 5, 40)) if abs(z) < 8)}
    )

    def expectation(power: int, centre: float) -> float:
        return sum(
            integrate.quad(
                lambda z: stats.norm.pdf(z) * (expit(mean + sd * z) - centre) ** power,
                low,
                high,
                epsabs=0,
                epsrel=1e-11,
            )[0]
            for low, high in pairwise(points)
        )

    assert got.mean == pytest.approx(expectation(1, 0.0), rel=1e-8)
    assert got.mean is not None and got.parameter_sd is not None
    assert got.parameter_sd == pytest.approx(math.sqrt(expectation(2, got.mean)), rel=1e-7)
    assert got.ci == pytest.approx([float(expit(stats.norm.ppf(tail, mean, sd))) for tail in (0.05, 0.95)])


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_interval_holds_the_chosen_level_in_equal_tails(level: float) -> None:
    rate = predict_rate(BetaPosterior(alpha=3.5, beta=12.0, n=10), level=level)
    assert rate.ci is not None
    assert stats.beta.cdf(rate.ci[0], 3.5, 12.0) == pytest.approx((1 - level) / 2)
    assert stats.beta.sf(rate.ci[1], 3.5, 12.0) == pytest.approx((1 - level) / 2)
    student = predict(Latent(mean=2.0, sd=3.0, df=4.3, logit=False), noise_sd=1.0, level=level)
    assert student.ci == pytest.approx(stats.t.interval(level, 4.3, 2.0, 3.0))


def test_estimated_noise_without_a_weighty_prior_gives_the_classical_t_interval() -> None:
    outcomes = [1.0, 4.0, 2.5, 3.0]
    sums = GaussianSums.of([((1.0,), y) for y in outcomes])
    (belief,) = [_belief(NormalPrior(mean=0.0, sd=1e6), sums, estimate_noise([sums]))]
    summary = summarize([belief, belief])
    assert summary.overall is not None
    classical = stats.t.interval(0.95, 3, np.mean(outcomes), stats.sem(outcomes))
    assert summary.overall.arms[0].posterior.ci == pytest.approx(classical, rel=1e-6)


def test_estimated_noise_matters_less_the_more_the_prior_weighs() -> None:
    sums = GaussianSums.of([((1.0,), y) for y in (1.0, 4.0, 2.5, 3.0)])
    noise = estimate_noise([sums])
    dfs = [
        latent_at(gaussian_posterior(NormalPrior(mean=2.6, sd=sd), sums, noise=noise), (1.0,)).df
        for sd in (1e6, 1.0, 0.1, 1e-9)
    ]
    assert dfs[0] == pytest.approx(3.0)
    assert dfs == sorted(dfs)
    assert dfs[-1] > 1e6
    share = 1 - 1 / (1 + 4 / (noise.sd or 0.0) ** 2)
    assert dfs[1] == pytest.approx(3 / share)


def test_an_estimate_that_moves_the_mean_widens_the_interval() -> None:
    sums = GaussianSums.of([((1.0,), y) for y in (9.0, 11.0, 10.5)])
    posterior = gaussian_posterior(NormalPrior(mean=0.0, sd=1.0), sums, noise=estimate_noise([sums]))
    moved = latent_at(posterior, (1.0,))
    variance = posterior.covariance[0][0]
    shift = variance * (0.0 - posterior.mu[0])
    assert moved.sd**2 == pytest.approx(variance + 2 * shift**2 / 2)


def test_predictive_sd_adds_noise_to_what_is_not_known_of_the_mean() -> None:
    prior = NormalPrior(mean=0.0, sd=2.0)
    summary = summarize([_belief(prior, GaussianSums.of([((1.0,), 1.0)] * 4), Noise.given(3.0))])
    assert summary.overall is not None
    (arm,) = summary.overall.arms
    variance = 1 / (1 / 4 + 4 / 9)
    assert arm.posterior.parameter_sd == pytest.approx(math.sqrt(variance))
    assert arm.posterior.predictive_sd == pytest.approx(math.sqrt(variance + 9))
    assert arm.prior.predictive_sd == pytest.approx(math.sqrt(4 + 9))


def test_without_a_noise_there_is_a_reason_and_no_predictive_sd() -> None:
    sums = GaussianSums.of([((1.0,), 5.0)])
    prior = NormalPrior(mean=1.0, sd=2.0)
    summary = summarize([_belief(prior, sums, estimate_noise([sums]))] * 2)
    assert summary.overall is not None
    arm = summary.overall.arms[0]
    assert arm.posterior == arm.prior
    assert arm.posterior.predictive_sd is None
    assert arm.p_best == pytest.approx(0.5)
    assert arm.reason is not None and "degrees of freedom" in arm.reason


def test_a_context_of_zeros_is_certain_and_shares_the_probability() -> None:
    prior = NormalPrior(mean=3.0, sd=1.0, dimensions=2)
    arms = [_belief(prior, GaussianSums.empty(2), Noise.given(1.0))] * 4
    (at,) = summarize(arms, draws=[], at=[(0.0, 0.0)]).at
    assert [(arm.p_best, arm.expected_loss) for arm in at.arms] == [(0.25, 0.0)] * 4
    assert at.arms[0].posterior.ci == (0.0, 0.0)


def test_what_lies_beyond_doubles_is_none_with_a_reason_and_all_is_json() -> None:
    prior = NormalPrior(mean=1e90, sd=1e90, dimensions=2)
    arms = [_belief(prior, GaussianSums.empty(2), Noise.given(1.0))] * 2
    summary = summarize(arms, draws=[DrawnContext(x=(1.0, 1e250), n=3)], at=[(1e150, 0.0)])
    assert summary.overall is not None
    arm = summary.overall.arms[0]
    assert (arm.posterior.mean, arm.p_best, arm.expected_loss) == (None, None, None)
    assert arm.reason is not None and "range of double" in arm.reason
    assert json.loads(json.dumps(asdict(summary), allow_nan=False))["overall"]["arms"][0]["posterior"]["ci"] is None


DRAWN = st.lists(
    st.builds(DrawnContext, x=st.tuples(st.just(1.0), st.sampled_from([-1.0, 0.0, 0.5, 2.0])), n=st.integers(1, 5)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=15, deadline=None)
@given(drawn=DRAWN, data=st.data())
def test_average_has_the_same_bits_in_any_order_and_grouping(drawn: list[DrawnContext], data: st.DataObject) -> None:
    one_by_one = [DrawnContext(x=context.x, n=1) for context in drawn for _ in range(context.n)]
    arms = []
    for successes in (2, 5):
        prior = NormalPrior(mean=0.0, sd=1.5, dimensions=2)
        counts = [ContextCount(x=(1.0, 0.5), successes=successes, failures=4)]
        arms.append(ArmBelief(prior=prior, posterior=logistic_posterior(prior, counts)))
    expected = summarize(arms, draws=drawn)
    assert summarize(arms, draws=data.draw(st.permutations(one_by_one))) == expected
    turned = summarize(arms[::-1], draws=drawn)
    assert turned.overall is not None and expected.overall is not None
    for one, other in zip(turned.overall.arms[::-1], expected.overall.arms, strict=True):
        assert one.p_best == pytest.approx(other.p_best, rel=1e-9)
        assert one.posterior == other.posterior


@pytest.mark.parametrize("sd", [0.3, 2.0, 30.0])
def test_average_is_the_mean_of_the_predictions_at_each_context(sd: float) -> None:
    posterior = _logistic([], dimensions=2, sd=sd)
    drawn = [DrawnContext(x=(1.0, 0.2), n=1), DrawnContext(x=(1.0, -3.0), n=2), DrawnContext(x=(0.0, 0.0), n=4)]
    contexts = Contexts.of(drawn)
    assert contexts is not None
    each = [predict(latent_at(posterior, context.x), noise_sd=None, level=0.95).mean for context in drawn]
    expected = sum(context.n / 7 * (mean or 0.0) for context, mean in zip(drawn, each, strict=True))
    assert average_probability(posterior, contexts) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("outcomes", "allowed"), [(300, 0.005), (20, 0.03), (0, 0.03)])
def test_interval_of_the_average_is_near_that_of_many_samples(outcomes: int, allowed: float) -> None:
    source = np.random.default_rng(11)
    x = np.column_stack([np.ones(400), source.normal(size=(400, 2))])
    success = source.random(400) < expit(x @ np.array([0.5, 1.0, -1.0]))
    counts = [
        ContextCount(x=tuple(row), successes=int(one), failures=int(not one))
        for row, one in zip(x.tolist(), success.tolist(), strict=True)
    ]
    posterior = _logistic(counts[:outcomes], dimensions=3, sd=1.2)
    contexts = Contexts.of([DrawnContext(x=tuple(row), n=1) for row in x.tolist()])
    assert contexts is not None
    got = predict(latent_over(posterior, contexts), noise_sd=None, level=0.95)
    coefficients = source.multivariate_normal(posterior.mu, posterior.covariance, size=20_000)
    averages = np.mean(expit(coefficients @ x.T), axis=1)
    assert got.mean == pytest.approx(float(np.mean(averages)), abs=0.005)
    assert got.ci == pytest.approx(tuple(np.quantile(averages, [0.025, 0.975])), abs=allowed)


def test_thousands_of_contexts_and_ten_arms_take_seconds() -> None:
    source = np.random.default_rng(2)
    prior = NormalPrior(mean=0.0, sd=1.0, dimensions=3)
    arms = [
        ArmBelief(
            prior=prior,
            posterior=logistic_posterior(prior, [ContextCount(x=(1.0, 0.5, -1.0), successes=arm, failures=9)]),
        )
        for arm in range(10)
    ]
    draws = [DrawnContext(x=tuple(row), n=100) for row in source.normal(size=(3_000, 3)).tolist()]
    begun = time.monotonic()
    summary = summarize(arms, draws=draws)
    assert time.monotonic() - begun < 10
    assert summary.overall is not None
    assert sum(arm.p_best or 0.0 for arm in summary.overall.arms) == pytest.approx(1.0)


def test_what_cannot_be_summarised_is_refused() -> None:
    beta = BetaPrior(alpha=1.0, beta=1.0)
    rates = ArmBelief(prior=beta, posterior=beta_posterior(beta, successes=1, failures=2))
    normal = _belief(NormalPrior(mean=0.0, sd=1.0, dimensions=2), GaussianSums.empty(2), Noise.given(1.0))
    with pytest.raises(ValueError, match="at least one arm"):
        summarize([])
    with pytest.raises(ValueError, match="level"):
        summarize([rates], level=95)
    with pytest.raises(ValueError, match="mixed"):
        summarize([rates, normal])
    with pytest.raises(ValueError, match="mixed"):
        summarize([normal, rates], draws=[])
    with pytest.raises(ValueError, match="no contexts"):
        summarize([rates], draws=[DrawnContext(x=(1.0,), n=1)])
    with pytest.raises(ValueError, match="draws must be given"):
        summarize([normal])
    with pytest.raises(ValueError, match="2 entries"):
        summarize([normal], draws=[], at=[(1.0,)])
    with pytest.raises(ValueError, match="finite"):
        summarize([normal], draws=[], at=[(1.0, math.nan)])
    with pytest.raises(ValueError, match="finite"):
        Contexts.of([DrawnContext(x=(math.inf,), n=1)])
    with pytest.raises(ValueError, match="negative"):
        Contexts.of([DrawnContext(x=(1.0,), n=-1)])
    with pytest.raises(ValueError, match="same length"):
        Contexts.of([DrawnContext(x=(1.0,), n=1), DrawnContext(x=(1.0, 2.0), n=1)])
    assert summarize([normal], draws=[]).overall is None
    assert normal.posterior == gaussian_posterior(
        NormalPrior(mean=0.0, sd=1.0, dimensions=2),
        GaussianSums.empty(2),
        noise=Noise(sd=1.0, source=NoiseSource.GIVEN),
    )
