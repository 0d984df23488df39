"""Mistakes that bandits' posteriors are known for: each test can tell the mistaken number from the right
one."""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy.special import expit

from experiments.stats.averages import Contexts, DrawnContext, average_probability
from experiments.stats.gaussian_sums import GaussianSums
from experiments.stats.laplace import ContextCount, logistic_posterior
from experiments.stats.noise import Noise, noise_of
from experiments.stats.posterior import beta_posterior, gaussian_posterior
from experiments.stats.predictions import latent_at
from experiments.stats.priors import BetaPrior, NormalPrior
from experiments.stats.summary import ArmBelief, summarize

CONSTANT = (1.0,)


def _constant(*outcomes: float) -> GaussianSums:
    return GaussianSums.of([(CONSTANT, outcome) for outcome in outcomes])


def test_outcomes_count_once_however_often_the_posterior_is_updated() -> None:
    prior = NormalPrior(mean=0.0, sd=2.0)
    outcomes = [1.0, 3.0, 2.0, 4.0]
    replayed, total = prior, GaussianSums.empty()
    for number, outcome in enumerate(outcomes, 1):
        total = total.merge(_constant(outcome))
        # The mistake: everything so far onto the posterior of last time.
        again = gaussian_posterior(replayed, _constant(*outcomes[:number]), noise=Noise.given(1.0))
        replayed = NormalPrior(mean=again.mu[0], sd=math.sqrt(again.covariance[0][0]))
    posterior = gaussian_posterior(prior, total, noise=Noise.given(1.0))
    assert posterior.covariance[0][0] == pytest.approx(1 / (1 / 4 + 4))
    assert posterior.mu[0] == pytest.approx(10 / (1 / 4 + 4))
    assert replayed.sd**2 < 0.5 * posterior.covariance[0][0]


def test_logistic_covariance_is_the_inverse_of_the_exact_hessian() -> None:
    prior = NormalPrior(mean=0.3, sd=1.5, dimensions=2)
    counts = [
        ContextCount(x=(1.0, 0.5), successes=7, failures=3),
        ContextCount(x=(1.0, -2.0), successes=1, failures=9),
    ]
    posterior = logistic_posterior(prior, counts)

    def loss(beta: np.ndarray) -> float:
        total = float(np.sum((beta - 0.3) ** 2)) / (2 * 1.5**2)
        for count in counts:
            log_odds = float(np.dot(count.x, beta))
            total += count.successes * np.logaddexp(0, -log_odds) + count.failures * np.logaddexp(0, log_odds)
        return total

    mode, step = np.array(posterior.mu), 1e-4
    units = np.eye(2) * step
    hessian = [
        [
            (loss(mode + a + b) - loss(mode + a - b) - loss(mode - a + b) + loss(mode - a - b)) / (4 * step**2)
            for b in units
        ]
        for a in units
    ]
    assert np.array(posterior.covariance) == pytest.approx(np.linalg.inv(hessian), rel=1e-5)


def test_logistic_covariance_is_not_that_of_an_optimiser_that_made_no_step() -> None:
    # The mode is where the search starts: an optimiser's own approximation would still be the identity matrix.
    posterior = logistic_posterior(NormalPrior(mean=0.0, sd=1.0), [ContextCount(x=CONSTANT, successes=10, failures=10)])
    assert posterior.mu == (0.0,)
    assert posterior.covariance[0][0] == pytest.approx(1 / 6)


def test_contexts_enter_as_the_outer_product() -> None:
    x = (1.0, 2.0)
    posterior = gaussian_posterior(
        NormalPrior(mean=0.0, sd=1.0, dimensions=2), GaussianSums.of([(x, 3.0)], dimensions=2), noise=Noise.given(1.0)
    )
    right = np.linalg.inv(np.eye(2) + np.outer(x, x))
    mistaken = np.linalg.inv(np.eye(2) + np.dot(x, x) * np.eye(2))
    assert np.array(posterior.covariance) == pytest.approx(right)
    assert np.max(np.abs(right - mistaken)) > 0.3
    # Nothing was learnt of the direction that no context has.
    assert latent_at(posterior, (2.0, -1.0)).sd == pytest.approx(math.sqrt(5))


def test_noise_of_outcomes_in_the_millions_is_estimated_within_arms_and_not_taken_as_one() -> None:
    source = np.random.default_rng(7)
    arms = [_constant(*source.normal(mean, 2e6, 50).tolist()) for mean in (5e6, 50e6)]
    noise = noise_of(None, arms)
    assert (noise.source, noise.df) == ("estimated", 98)
    assert noise.sd == pytest.approx(2e6, rel=0.2)  # around a common mean it would be 22 million
    posterior = gaussian_posterior(NormalPrior(mean=0.0, sd=1e8), arms[0], noise=noise)
    right = latent_at(posterior, CONSTANT).sd
    mistaken = latent_at(
        gaussian_posterior(NormalPrior(mean=0.0, sd=1e8), arms[0], noise=Noise.given(1.0)), CONSTANT
    ).sd
    assert right == pytest.approx(2e6 / math.sqrt(50), rel=0.2)
    assert mistaken < 1


def test_prior_sd_is_a_standard_deviation() -> None:
    posterior = gaussian_posterior(NormalPrior(mean=0.0, sd=3.0), GaussianSums.empty(), noise=Noise.given(1.0))
    assert posterior.covariance == ((9.0,),)
    logistic = logistic_posterior(NormalPrior(mean=0.0, sd=3.0), [])
    assert logistic.covariance[0][0] == pytest.approx(9.0)
    assert latent_at(logistic, CONSTANT).sd == pytest.approx(3.0)


def test_noise_sd_is_a_standard_deviation() -> None:
    posterior = gaussian_posterior(NormalPrior(mean=0.0, sd=1e6), _constant(0.0), noise=Noise.given(3.0))
    assert posterior.covariance[0][0] == pytest.approx(9.0)


def test_two_looks_at_the_same_data_give_the_same_bits() -> None:
    def look() -> dict[str, object]:
        arms = []
        for shift in range(3):
            prior = NormalPrior(mean=0.0, sd=1.0, dimensions=2)
            counts = [ContextCount(x=(1.0, x / 4), successes=2 + shift, failures=5 + x) for x in range(5)]
            arms.append(ArmBelief(prior=prior, posterior=logistic_posterior(prior, counts)))
        draws = [DrawnContext(x=(1.0, x / 4), n=x + 1) for x in range(5)]
        return asdict(summarize(arms, draws=draws, at=[(1.0, 0.3)]))

    assert look() == look()


@pytest.mark.parametrize("successes", [1, 10**9])
def test_probabilities_that_round_to_one_are_no_error(successes: int) -> None:
    x, sd = 1000.0, 10.0
    log_odds = 2 * x * sd  # the mistake is log(1 - p), here log(0)
    assert 1 - expit(log_odds) == 0.0
    prior = NormalPrior(mean=2 * sd, sd=sd)
    posterior = logistic_posterior(prior, [ContextCount(x=(x,), successes=successes, failures=0)])
    assert posterior.mu[0] == pytest.approx(prior.mean)
    surprised = logistic_posterior(prior, [ContextCount(x=(x,), successes=0, failures=1)])
    mode = surprised.mu[0]
    # At the mode the prior's pull equals the likelihood's.
    assert (mode - prior.mean) / sd**2 == pytest.approx(-x * expit(x * mode), rel=1e-9)


def test_average_over_draws_is_not_the_prediction_at_the_mean_context() -> None:
    posterior = logistic_posterior(NormalPrior(mean=2.0, sd=0.01), [])
    drawn = [DrawnContext(x=(0.0,), n=1), DrawnContext(x=(3.0,), n=1)]
    contexts = Contexts.of(drawn)
    assert contexts is not None
    average = average_probability(posterior, contexts)
    assert average == pytest.approx((0.5 + expit(6.0)) / 2, abs=1e-4)
    assert expit(2.0 * contexts.mean[0]) > average + 0.1


def test_results_do_not_depend_on_the_order_of_arrival() -> None:
    outcomes = [0.1, 1e9, -0.3, 7e-9, -1e9, 0.7]
    assert reduce(add, outcomes) != reduce(add, reversed(outcomes))  # as doubles would
    orders = [outcomes, outcomes[::-1], sorted(outcomes)]
    prior = NormalPrior(mean=0.0, sd=1.0)
    results = {gaussian_posterior(prior, _constant(*order), noise=Noise.given(0.5)) for order in orders}
    assert len(results) == 1


def test_the_first_outcome_still_counts_after_thousands() -> None:
    early, late = 1000, 200
    posterior = beta_posterior(BetaPrior(alpha=1.0, beta=1.0), successes=early, failures=late)
    assert (posterior.alpha, posterior.beta) == (1001.0, 201.0)
    sums = _constant(*[1.0] * early, *[0.0] * late)
    normal = gaussian_posterior(NormalPrior(mean=0.0, sd=1e6), sums, noise=Noise.given(1.0))
    assert normal.mu[0] == pytest.approx(early / (early + late))
    assert normal.n == early + late
    logistic = logistic_posterior(
        NormalPrior(mean=0.0, sd=1e6),
        [ContextCount(x=CONSTANT, successes=early, failures=0), ContextCount(x=CONSTANT, successes=0, failures=late)],
    )
    assert logistic.mu[0] == pytest.approx(math.log(early / late))
    # The mistake: of the latest 100 outcomes none was a success.
    assert normal.mu[0] > 0.5
