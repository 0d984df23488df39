"""Ratio metrics where there is no ratio, or no error."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from experiments.stats.cross_moments import CrossMoments
from experiments.stats.ratio import ratio, ratio_differences

_USUAL = CrossMoments.of([1.0, 2.0, 4.0], [3.0, 3.0, 9.0])


@pytest.mark.parametrize(
    ("sums", "reason"),
    [
        (CrossMoments.of([0.0, 0.0], [1.0, 2.0]), "the denominators add up to 0"),
        (CrossMoments.of([1e-300, 2e-300], [1e10, 2e10]), "the ratio is beyond the range of doubles"),
        (CrossMoments.of([2.0], [1.0]), "there is only one participant"),
    ],
)
def test_ratio_that_cannot_be_computed_says_why(sums: CrossMoments, reason: str) -> None:
    got = ratio(sums, alpha=0.05)
    assert got.std_error is None
    assert got.reason == reason
    for baseline, expected in (("a", reason), ("b", f"baseline: {reason}")):
        other = ratio_differences({"a": _USUAL, "b": sums}, baseline=baseline, alpha=0.05)
        (difference,) = other.values()
        assert (difference.std_error, difference.p_value) == (None, None)
        assert difference.reason == expected
        assert json.dumps(asdict(difference), allow_nan=False)


def test_equal_ratios_of_all_participants_leave_exactly_no_error() -> None:
    x = [0.1, 0.3, 0.7, 1.3]
    arms = {"a": CrossMoments.of(x, [3 * v for v in x]), "b": CrossMoments.of(x, [0.7 * v for v in x])}
    assert ratio(arms["a"], alpha=0.05).std_error == 0.0
    got = ratio_differences(arms, baseline="a", alpha=0.05)["b"]
    assert (got.std_error, got.statistic, got.p_value) == (0.0, None, None)
    assert got.reason == "the standard error is exactly 0"


def test_difference_is_tested_by_the_normal_distribution() -> None:
    arms = {"a": _USUAL, "b": CrossMoments.of([1.0, 2.0, 2.0], [9.0, 8.0, 11.0])}
    got = ratio_differences(arms, baseline="a", alpha=0.05)
    assert got["b"].difference == pytest.approx(28 / 5 - 15 / 7)
    assert got["b"].statistic is not None
    assert got["b"].p_value is not None
    assert got["b"].p_value < 0.05
