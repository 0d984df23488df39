"""Differential missingness beside SciPy's tests, and where there is nothing to test."""

from __future__ import annotations

import pytest
from scipy import stats

from experiments.stats.frequentist import ArmSums, analyze_metric
from experiments.stats.missingness import differential_missingness
from experiments.stats.sufficient import Moments


def test_large_counts_are_tested_by_chi_square() -> None:
    got = differential_missingness(observed=[900, 850, 0, 870], missing=[100, 150, 0, 130], baseline=0)
    expected = stats.chi2_contingency([[900, 850, 870], [100, 150, 130]], correction=False)
    assert got.method == "chi_square"
    assert got.df == 2
    assert got.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert got.p_value == pytest.approx(expected.pvalue, rel=1e-10)


def test_small_counts_are_tested_exactly_against_the_baseline() -> None:
    got = differential_missingness(observed=[40, 36, 39], missing=[0, 5, 1], baseline=0)
    expected = float(stats.fisher_exact([[36, 5], [40, 0]]).pvalue)
    assert got.method == "fisher"
    assert got.p_value == pytest.approx(2 * expected, rel=1e-10)


def test_adjusted_exact_p_value_is_at_most_one() -> None:
    got = differential_missingness(observed=[9, 9, 9, 9], missing=[1, 1, 1, 1], baseline=2)
    assert got.p_value == 1.0


@pytest.mark.parametrize(
    ("observed", "missing", "reason"),
    [
        ([10, 12], [0, 0], "no outcome is missing"),
        ([0, 0], [5, 6], "every outcome is missing"),
        ([10, 0], [3, 0], "fewer than two arms have participants"),
        ([0, 3, 4], [0, 1, 0], "the baseline has no participants to compare the others with, and counts are small"),
    ],
)
def test_nothing_to_compare_is_no_test(observed: list[int], missing: list[int], reason: str) -> None:
    got = differential_missingness(observed=observed, missing=missing, baseline=0)
    assert (got.method, got.statistic, got.df, got.p_value) == (None, None, None, None)
    assert got.reason == reason


def test_everything_that_is_missing_counts_in_an_analysis() -> None:
    some = Moments.of([1.0, 2.0] * 50)
    arms = [
        ArmSums(arm=5, n_assigned=120, moments=some, n_null=10, n_non_finite=10),
        ArmSums(arm=3, n_assigned=140, moments=some, n_not_in_warehouse=20, n_duplicate=20),
    ]
    got = analyze_metric(arms=arms, baseline=3, alpha=0.05).missingness
    assert got == differential_missingness(observed=[100, 100], missing=[20, 40], baseline=1)
    assert got.p_value is not None
