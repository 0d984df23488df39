"""Sums of pairs: the same however they are cut up, and refused where a pair is not one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.stats.cross_moments import ORDERS, CrossMoments

_PAIRS = st.lists(st.tuples(st.integers(-100, 100), st.integers(-100, 100)), min_size=2, max_size=30)


@given(_PAIRS, st.integers(1, 29))
@settings(max_examples=80, deadline=None)
def test_merged_parts_are_the_whole(pairs: list[tuple[int, int]], cut: int) -> None:
    cut = min(cut, len(pairs) - 1)
    parts = [CrossMoments.of([x for x, _ in part], [y for _, y in part]) for part in (pairs[:cut], pairs[cut:])]
    merged = parts[0].merge(parts[1])
    n = len(pairs)
    mean_x, mean_y = sum(x for x, _ in pairs) / n, sum(y for _, y in pairs) / n
    assert merged.n == n
    assert merged.mean_x == pytest.approx(mean_x, abs=1e-12)
    for i, j in ORDERS:
        expected = math.fsum((x - mean_x) ** i * (y - mean_y) ** j for x, y in pairs)
        assert merged.product(i, j) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [([1.0], [1.0, 2.0], "as long as"), ([], [], "not empty"), ([1.0, math.nan], [1.0, 2.0], "must be finite")],
)
def test_pairs_that_are_none_are_refused(x: list[float], y: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CrossMoments.of(x, y)
