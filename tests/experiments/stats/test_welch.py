"""Welch's variance and degrees of freedom beside SciPy's, and the pooled variance."""

import math

import numpy as np
import pytest
from scipy import stats

from experiments.stats.sufficient import Moments
from experiments.stats.welch import pooled, welch

_A, _B = [1.0, 4.0, 2.5, 7.0], [0.5, 0.75, 0.5, 1.5, 1.0, 0.25]


@pytest.mark.parametrize("factor", [1.0, 1e-12, 1e-100, 1e100])
def test_variance_and_degrees_of_freedom_are_those_of_scipy(factor: float) -> None:
    variance, df = welch(Moments.of([value * factor for value in _A]), Moments.of([value * factor for value in _B]))
    expected = stats.ttest_ind(_A, _B, equal_var=False)
    assert math.isclose(df, float(expected.df), rel_tol=1e-12)
    assert math.isclose((np.mean(_A) - np.mean(_B)) / (math.sqrt(variance) / factor), expected.statistic, rel_tol=1e-12)


def test_weight_is_that_of_scaled_values() -> None:
    weighted = welch(Moments.of(_A), Moments.of(_B), weight=-1.5)
    assert weighted == pytest.approx(welch(Moments.of(_A), Moments.of([1.5 * value for value in _B])), rel=1e-12)


def test_no_variance_at_all_leaves_the_pooled_degrees_of_freedom() -> None:
    assert welch(Moments.of([2.0] * 3), Moments.of([3.0] * 4)) == (0.0, 5.0)


def test_pooled_variance_is_that_of_the_equal_variance_test() -> None:
    expected = stats.ttest_ind(_A, _B, equal_var=True)
    std_error = math.sqrt(pooled(Moments.of(_A), Moments.of(_B)))
    assert math.isclose((np.mean(_A) - np.mean(_B)) / std_error, expected.statistic, rel_tol=1e-12)
