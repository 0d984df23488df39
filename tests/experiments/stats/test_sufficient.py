"""Moments: exact where doubles are not, and the same however the sample is cut up."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.stats.sufficient import Moments, difference

_FLOATS = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False).map(lambda x: 0.0 if abs(x) < 1e-60 else x)
_SAMPLES = st.lists(_FLOATS, min_size=1, max_size=40)


def _exactly(values: list[float]) -> tuple[Fraction, Fraction]:
    mean = sum(map(Fraction, values), Fraction(0)) / len(values)
    return mean, sum(((Fraction(value) - mean) ** 2 for value in values), Fraction(0))


def _close(got: float | None, expected: float | Fraction, *, scale: float = 0.0) -> bool:
    assert got is not None
    return abs(got - float(expected)) <= 1e-12 * abs(float(expected)) + 1e-13 * scale


@given(_SAMPLES)
@settings(max_examples=150, deadline=None)
def test_mean_and_spread_are_those_of_exact_arithmetic(values: list[float]) -> None:
    got = Moments.of(values)
    mean, spread = _exactly(values)
    assert _close(got.mean, mean, scale=max(map(abs, values)) * 1e-3)
    assert _close(got.centred_ss, spread)


@given(_SAMPLES, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_chunks_merged_in_any_order_agree(values: list[float], source: random.Random) -> None:
    shuffled = list(values)
    source.shuffle(shuffled)
    chunks = []
    while shuffled:
        size = source.randint(1, len(shuffled))
        chunks.append(Moments.of(shuffled[:size]))
        shuffled = shuffled[size:]
    source.shuffle(chunks)
    merged = Moments.empty()
    for chunk in chunks:
        merged = merged.merge(chunk) if source.random() < 0.5 else chunk.merge(merged)
    mean, spread = _exactly(values)
    assert merged.n == len(values)
    assert _close(merged.mean, mean, scale=math.sqrt(spread))
    assert _close(merged.centred_ss, spread)


@given(st.lists(st.integers(min_value=-(10**17), max_value=10**17), min_size=2, max_size=20))
@settings(max_examples=60, deadline=None)
def test_large_integers_are_not_rounded(values: list[int]) -> None:
    got = Moments.of(values)
    mean, spread = _exactly([*values])
    assert got.origin + Fraction(got.offset) == mean
    assert _close(got.centred_ss, spread)
    assert difference(got, Moments.of([value - 1 for value in values])) == 1.0


def test_integers_near_nine_quadrillion_keep_a_difference_of_a_third() -> None:
    base = 9_007_199_254_740_993  # 2**53 + 1, which no double is
    a, b = Moments.of([base, base + 1, base + 3]), Moments.of([base, base + 1, base + 2])
    assert math.isclose(difference(a, b), 1 / 3, rel_tol=1e-15)
    assert math.isclose(a.centred_ss, 14 / 3, rel_tol=1e-15)


def test_sums_about_a_decimal_centre_keep_the_digits_of_values_near_a_trillion() -> None:
    a = Moments.from_centred(n=4, centre=Decimal("1000000000000.1"), sum_dev=0.2, sum_sq_dev=0.1)
    b = Moments.from_centred(n=4, centre=Decimal("1000000000000.2"), sum_dev=0.0, sum_sq_dev=0.1)
    assert math.isclose(difference(a, b), -0.05, rel_tol=1e-14)
    assert math.isclose(a.centred_ss, 0.1 - 0.2**2 / 4, rel_tol=1e-14)
    assert math.isclose(a.merge(b).centred_ss, 0.09 + 0.1 + 0.05**2 * 2, rel_tol=1e-12)


def test_tiny_values_keep_their_spread() -> None:
    got = Moments.of([1e-12, 2e-12, 4e-12])
    assert got.sd is not None
    assert math.isclose(got.sd, 1.5275252316519468e-12, rel_tol=1e-12)


@given(_FLOATS, st.lists(st.tuples(st.integers(1, 25_000), st.integers(-3, 3)), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_equal_values_have_no_spread_however_their_centres_were_rounded(
    value: float, chunks: list[tuple[int, int]]
) -> None:
    merged = Moments.empty()
    for n, steps in chunks:
        centre = value + steps * math.ulp(value)
        # The engine adds the same deviation n times, in doubles.
        deviations = np.full(n, value - centre)
        sum_dev, sum_sq_dev = float(deviations.sum()), float((deviations * deviations).sum())
        merged = merged.merge(Moments.from_centred(n=n, centre=centre, sum_dev=sum_dev, sum_sq_dev=sum_sq_dev))
    assert merged.centred_ss == 0.0
    assert merged.mean == value


def test_equal_values_have_no_spread_about_a_centre_far_away() -> None:
    """Neither the deviation nor its sums are exact here: what is left of the spread is rounding."""
    merged = Moments.empty()
    for centre in (0.3, 0.1, 0.7):
        deviation, total, squares = 0.1 - centre, 0.0, 0.0
        for _ in range(7):
            total, squares = total + deviation, squares + deviation * deviation
        merged = merged.merge(Moments.from_centred(n=7, centre=centre, sum_dev=total, sum_sq_dev=squares))
    assert merged.centred_ss == 0.0
    assert merged.mean == pytest.approx(0.1, rel=1e-15)


def test_spread_that_is_small_beside_the_values_is_not_taken_for_rounding() -> None:
    centre = 1e12
    got = Moments.from_centred(n=25_000, centre=centre, sum_dev=25_000 * 1.2e-4, sum_sq_dev=25_000 * 1.2e-4**2 * 1.01)
    assert math.isclose(got.centred_ss, 25_000 * 1.2e-4**2 * 0.01, rel_tol=1e-9)


def test_booleans_count_as_zero_and_one() -> None:
    got = Moments.of([True, False, True, True])
    assert got.mean == 0.75
    assert got.centred_ss == 0.75


def test_empty_sample_has_no_mean_and_changes_nothing() -> None:
    some = Moments.of([1.0, 2.0])
    assert Moments.of([]).mean is None
    assert Moments.of([]).sum is None
    assert Moments.of([]).sd is None
    assert Moments.from_centred(n=0, centre=None, sum_dev=0.0, sum_sq_dev=0.0).merge(some) == some
    assert some.merge(Moments.empty()) == some


def test_one_value_has_no_standard_deviation() -> None:
    got = Moments.from_centred(n=1, centre=0.1, sum_dev=0.3, sum_sq_dev=0.09)
    assert (got.mean, got.sd, got.centred_ss) == (0.4, None, 0.0)


@pytest.mark.parametrize("values", [[1e200, -1e200], [1.7e308, -1.7e308], [1e308, 1e308, 1e308]])
def test_values_beyond_double_arithmetic_overflow_instead_of_raising(values: list[float]) -> None:
    got = Moments.of(values)
    assert got.overflowed
    assert got.variance is None
    assert got.merge(Moments.of([1.0, 2.0])).overflowed


def test_sums_that_overflowed_in_the_engine_have_no_mean() -> None:
    got = Moments.from_centred(n=3, centre=1.0, sum_dev=math.inf, sum_sq_dev=math.inf)
    assert got.overflowed
    assert got.mean is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="values must be finite"):
        Moments.of([1.0, bad])


def test_count_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="n must not be negative"):
        Moments.from_centred(n=-1, centre=0, sum_dev=0.0, sum_sq_dev=0.0)


@pytest.mark.parametrize("centre", [None, math.nan])
def test_values_without_a_centre_are_refused(centre: float | None) -> None:
    with pytest.raises(ValueError, match="centre must be a finite number"):
        Moments.from_centred(n=2, centre=centre, sum_dev=0.0, sum_sq_dev=0.0)
