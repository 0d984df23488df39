"""Confidence sequences: the published boundary, where it is narrowest, and when there is none."""

from __future__ import annotations

import math

import pytest

from experiments.stats.confidence_sequence import MINIMUM_PER_ARM, TUNED_AT, boundary
from experiments.stats.frequentist import ArmSums, analyze_metric
from experiments.stats.results import Effect
from experiments.stats.sufficient import Moments


def _effect(n: int, m: int, *, spread: float = 1.0) -> Effect:
    arms = [
        ArmSums(
            arm=arm,
            n_assigned=size,
            moments=Moments.from_centred(
                n=size, centre=arm, sum_dev=0.0, sum_sq_dev=size * (spread if arm == 1 else 1)
            ),
        )
        for arm, size in ((1, n), (2, m))
    ]
    effect = analyze_metric(arms=arms, baseline=1, alpha=0.05).arms[1].effect
    assert effect is not None
    return effect


@pytest.mark.parametrize("n", [10, 1_000, 100_000])
def test_boundary_is_the_published_formula(n: int) -> None:
    rho2 = (-2 * math.log(0.05) + math.log(-2 * math.log(0.05) + 1)) / 500
    expected = math.sqrt(n) * math.sqrt(
        2 * (n * rho2 + 1) / (n**2 * rho2) * math.log(math.sqrt(n * rho2 + 1) / 0.05)
    )  # in units of the standard error, sd / sqrt(n)
    assert boundary(n, alpha=0.05, tuned_at=500) == pytest.approx(expected, rel=1e-12)


def test_boundary_is_near_its_narrowest_where_it_is_tuned() -> None:
    at = {tuned_at: boundary(700, alpha=0.05, tuned_at=tuned_at) for tuned_at in range(300, 1500, 10)}
    assert at[700] <= min(at.values()) * 1.001
    assert boundary(700, alpha=0.05, tuned_at=700) == pytest.approx(3.035, abs=0.001)


def test_sequence_is_wider_than_the_interval_by_the_boundary() -> None:
    effect = _effect(600, 600)
    assert effect.headline is not None
    assert effect.confidence_sequence.ci is not None
    low, high = effect.confidence_sequence.ci
    expected = boundary(1200, alpha=0.05, tuned_at=TUNED_AT) * effect.headline.std_error
    assert (low, high) == pytest.approx((1 - expected, 1 + expected), rel=1e-12)


def test_small_arm_that_varies_less_is_not_trusted() -> None:
    """The large arm's spread is 100 times as large: by Welch alone the small arm would seem to know its mean."""
    effect = _effect(2_000, 100, spread=100.0)
    assert effect.headline is not None
    assert effect.confidence_sequence.ci is not None
    low, high = effect.confidence_sequence.ci
    assert (high - low) / 2 > 3 * boundary(2_100, alpha=0.05, tuned_at=TUNED_AT) * effect.headline.std_error


def test_sequence_begins_with_enough_outcomes_in_both_arms() -> None:
    assert _effect(MINIMUM_PER_ARM, MINIMUM_PER_ARM).confidence_sequence.reason is None
    early = _effect(10_000, MINIMUM_PER_ARM - 1).confidence_sequence
    assert early.ci is None
    assert early.reason == "begins when both arms have 100 outcomes; one has 99"
