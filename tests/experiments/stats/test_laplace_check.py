"""A stored mode and covariance judged in one pass, beside the posterior that is found from all outcomes at once."""

from __future__ import annotations

import math
import random
from itertools import batched

import pytest

from experiments.stats.laplace import ContextCount, logistic_posterior
from experiments.stats.laplace_check import ModeCheck
from experiments.stats.priors import NormalPrior

PRIOR = NormalPrior(mean=0.5, sd=2.0, dimensions=3)


def _counts(n: int) -> list[ContextCount]:
    chance = random.Random(7)  # noqa: S311 - made-up data
    made = []
    for _ in range(n):
        x = (1.0, chance.gauss(0, 1), chance.uniform(-3, 3))
        success = chance.random() < 1 / (1 + math.exp(-0.3 * x[1] - 0.5 * x[2]))
        made.append(ContextCount(x=x, successes=int(success), failures=int(not success)))
    return made


COUNTS = _counts(500)
POSTERIOR = logistic_posterior(PRIOR, COUNTS)


def _check(mu: tuple[float, ...], covariance: tuple[tuple[float, ...], ...]) -> ModeCheck:
    check = ModeCheck.of(PRIOR, mu=mu, covariance=covariance)
    for chunk in batched(COUNTS, 64):
        check.add(chunk)
    return check


def test_the_true_mode_is_at_no_distance() -> None:
    assert _check(POSTERIOR.mu, POSTERIOR.covariance).distance() < 1e-10


@pytest.mark.parametrize("step", [1e-5, 1e-3, 0.1])
def test_the_distance_of_a_moved_mode_is_in_posterior_standard_deviations(step: float) -> None:
    covariances = POSTERIOR.covariance[0]
    moved = tuple(
        mu + step * covariance / math.sqrt(covariances[0])
        for mu, covariance in zip(POSTERIOR.mu, covariances, strict=True)
    )
    assert _check(moved, POSTERIOR.covariance).distance() == pytest.approx(step, rel=0.3)


def test_one_newton_step_leads_back_to_the_mode() -> None:
    moved = (POSTERIOR.mu[0] + 1e-3, *POSTERIOR.mu[1:])
    assert _check(moved, POSTERIOR.covariance).better_mode() == pytest.approx(POSTERIOR.mu, abs=1e-6)


def test_a_covariance_that_is_too_wide_is_told() -> None:
    wider = tuple(tuple(1.01 * value for value in row) for row in POSTERIOR.covariance)
    assert _check(POSTERIOR.mu, wider).distance() == pytest.approx(0.01, rel=1e-6)


@pytest.mark.parametrize("left_out", [1, 10])
def test_a_posterior_that_misses_outcomes_is_told(left_out: int) -> None:
    stale = logistic_posterior(PRIOR, COUNTS[left_out:])
    assert _check(stale.mu, stale.covariance).distance() > 1e-3


@pytest.mark.parametrize("x", [(1.0, 2.0), (1.0, math.nan, 0.0), (1.0, math.inf, 0.0)])
def test_a_context_that_cannot_be_is_refused(x: tuple[float, ...]) -> None:
    check = ModeCheck.of(PRIOR, mu=POSTERIOR.mu, covariance=POSTERIOR.covariance)
    with pytest.raises(ValueError, match="3 finite entries"):
        check.add([ContextCount(x=x, successes=1, failures=0)])


def test_what_does_not_fit_the_prior_is_refused() -> None:
    with pytest.raises(ValueError, match="3 entries each way"):
        ModeCheck.of(PRIOR, mu=(0.0,), covariance=((1.0,),))
    with pytest.raises(ValueError, match="finite numbers"):
        ModeCheck.of(PRIOR, mu=(math.nan, 0.0, 0.0), covariance=POSTERIOR.covariance)
