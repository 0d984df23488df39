"""The sample ratio check in the cases that need no chi-square, or cannot have one."""

from __future__ import annotations

import math

import pytest

from experiments.stats.srm import sample_ratio


def test_empty_arm_with_a_weight_counts_as_zero() -> None:
    got = sample_ratio(counts=[100, 0], weights=[1, 1])
    assert got.chi_square == pytest.approx(100.0)
    assert got.mismatch


def test_empty_arm_of_weight_zero_is_left_out() -> None:
    with_it = sample_ratio(counts=[60, 0, 40], weights=[1, 0, 1])
    assert with_it == sample_ratio(counts=[60, 40], weights=[50, 50])
    assert with_it.df == 1


def test_unit_in_an_arm_of_weight_zero_is_a_mismatch() -> None:
    got = sample_ratio(counts=[500, 1, 500], weights=[50, 0, 50])
    assert got.mismatch
    assert (got.chi_square, got.p_value) == (None, 0.0)
    assert got.reason == "1 assigned to an arm of weight 0"


@pytest.mark.parametrize(
    ("counts", "weights", "reason"),
    [
        ([0, 0], [1, 1], "nobody is assigned"),
        ([10, 0], [1, 0], "only one arm has a weight above 0"),
        ([10], [1], "only one arm has a weight above 0"),
    ],
)
def test_nothing_to_test_is_no_verdict(counts: list[int], weights: list[float], reason: str) -> None:
    got = sample_ratio(counts=counts, weights=weights)
    assert (got.chi_square, got.df, got.p_value, got.mismatch) == (None, None, None, None)
    assert got.reason == reason


def test_few_expected_units_make_a_rough_p_value() -> None:
    got = sample_ratio(counts=[3, 1], weights=[1, 1])
    assert got.p_value == pytest.approx(0.3173, abs=1e-4)
    assert got.mismatch is False
    assert got.reason == "an arm is expected to have only 2: the p-value is rough"


@pytest.mark.parametrize(
    ("counts", "weights", "message"),
    [
        ([1, 2], [1.0], "weights: there must be one"),
        ([1, -2], [1.0, 1.0], "counts: must not be negative"),
        ([1, 2], [1.0, -1.0], "weights: must be finite"),
        ([1, 2], [1.0, math.nan], "weights: must be finite"),
        ([1, 2], [0.0, 0.0], "weights: must be finite, not negative and not all 0"),
    ],
)
def test_counts_and_weights_that_make_no_sense_are_named(counts: list[int], weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample_ratio(counts=counts, weights=weights)
