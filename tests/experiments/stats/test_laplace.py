"""The logistic posterior: its mode, in any order, with separated data, and with contexts that are large."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit

from experiments.stats.laplace import LARGEST_LOG_ODDS, ContextCount, logistic_posterior
from experiments.stats.priors import NormalPrior

COUNTS = st.lists(
    st.builds(
        ContextCount,
        x=st.tuples(st.sampled_from([1.0, -0.5, 3.25]), st.floats(min_value=-5, max_value=5)),
        successes=st.integers(min_value=0, max_value=4),
        failures=st.integers(min_value=0, max_value=4),
    ),
    max_size=8,
)
PRIOR = NormalPrior(mean=-0.25, sd=1.5, dimensions=2)


@settings(max_examples=25, deadline=None)
@given(counts=COUNTS, data=st.data())
def test_order_and_batching_leave_the_same_bits(counts: list[ContextCount], data: st.DataObject) -> None:
    one_by_one = [
        ContextCount(x=count.x, successes=int(success), failures=int(not success))
        for count in counts
        for success in [True] * count.successes + [False] * count.failures
    ]
    expected = logistic_posterior(PRIOR, [count for count in counts if count.successes + count.failures])
    assert logistic_posterior(PRIOR, data.draw(st.permutations(one_by_one))) == expected


@settings(max_examples=25, deadline=None)
@given(counts=COUNTS)
def test_gradient_is_zero_at_the_mode(counts: list[ContextCount]) -> None:
    mode = np.array(logistic_posterior(PRIOR, counts).mu)
    gradient = (mode - PRIOR.mean) / PRIOR.sd**2
    for count in counts:
        p = expit(np.dot(count.x, mode))
        gradient -= np.array(count.x) * (count.successes * (1 - p) - count.failures * p)
    assert gradient == pytest.approx(np.zeros(2), abs=1e-11)


@pytest.mark.parametrize("x", [1.0, 1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("failures", [0, 2])
def test_mode_is_found_with_separated_data_and_large_contexts(x: float, failures: int) -> None:
    posterior = logistic_posterior(
        NormalPrior(mean=0.0, sd=1.0), [ContextCount(x=(x,), successes=5, failures=failures)]
    )

    def pull(log_odds: float) -> float:
        return log_odds / x - x * (5 * expit(-log_odds) - failures * expit(log_odds))

    mode = brentq(pull, 0.0, 100.0, xtol=1e-14)
    assert posterior.mu[0] * x == pytest.approx(mode, rel=1e-9)
    variance = 1 / (1 + x * x * (5 + failures) * expit(mode) * expit(-mode))
    assert posterior.covariance[0][0] == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("x", [1e3, 1e8, 1e12])
def test_collinear_large_contexts_leave_the_prior_in_the_direction_they_do_not_have(x: float) -> None:
    posterior = logistic_posterior(
        NormalPrior(mean=0.0, sd=1.0, dimensions=2), [ContextCount(x=(x, x), successes=5, failures=0)]
    )
    covariance = np.array(posterior.covariance)
    assert float(np.array([1, -1]) @ covariance @ np.array([1, -1])) == pytest.approx(2.0, rel=1e-6)


def test_no_outcomes_leave_the_prior() -> None:
    posterior = logistic_posterior(PRIOR, [])
    assert posterior.mu == pytest.approx((-0.25, -0.25))
    assert np.array(posterior.covariance) == pytest.approx(np.eye(2) * 2.25)
    assert posterior.n == 0


def test_hundred_thousand_contexts_take_seconds() -> None:
    source = np.random.default_rng(4)
    x = source.normal(size=(100_000, 3))
    success = source.random(100_000) < expit(x @ np.array([0.5, -1.0, 0.25]))
    counts = [
        ContextCount(x=tuple(row), successes=int(one), failures=int(not one))
        for row, one in zip(x.tolist(), success.tolist(), strict=True)
    ]
    prior = NormalPrior(mean=0.0, sd=2.0, dimensions=3)
    begun = time.monotonic()
    posterior = logistic_posterior(prior, counts)
    assert time.monotonic() - begun < 10
    assert posterior.mu == pytest.approx((0.5, -1.0, 0.25), abs=0.05)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (ContextCount(x=(1.0,), successes=1, failures=0), "2 entries"),
        (ContextCount(x=(1.0, float("nan")), successes=1, failures=0), "finite"),
        (ContextCount(x=(1.0, float("inf")), successes=1, failures=0), "finite"),
        (ContextCount(x=(1.0, LARGEST_LOG_ODDS), successes=1, failures=0), "scale the context"),
        (ContextCount(x=(1.0, 1.0), successes=-1, failures=0), "negative"),
    ],
)
def test_what_is_no_outcome_is_refused(count: ContextCount, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        logistic_posterior(PRIOR, [count])
