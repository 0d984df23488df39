"""Reference distributions far out in their tails, and where an error or an interval is beyond doubles."""

from __future__ import annotations

import math

import pytest

from experiments.stats.reference import normal_p_value, normal_quantile, robust_estimate, t_p_value, t_quantile, t_test


def test_tiny_p_values_are_not_rounded_to_zero() -> None:
    assert normal_p_value(-30.0) == pytest.approx(9.81342785e-198, rel=1e-6, abs=0)
    assert t_p_value(1e6, 3.0) == pytest.approx(2.2e-18, rel=0.01, abs=0)


def test_quantiles_of_a_tiny_alpha_are_finite_and_meet_it() -> None:
    assert normal_p_value(normal_quantile(1e-20)) == pytest.approx(1e-20, rel=1e-9, abs=0)
    for df in (1.7, 9.0, 1e6):
        assert t_p_value(t_quantile(1e-20, df), df) == pytest.approx(1e-20, rel=1e-6, abs=0)


def test_p_value_does_not_depend_on_the_sign() -> None:
    assert t_p_value(2.5, 4.0) == t_p_value(-2.5, 4.0)
    assert normal_p_value(2.5) == normal_p_value(-2.5)


def test_estimate_without_variance_stands_alone() -> None:
    got = robust_estimate(1.5, None, df=4, alpha=0.05)
    assert (got.estimate, got.std_error, got.p_value_t, got.ci_t) == (1.5, None, None, None)


def test_no_error_has_an_interval_but_no_test() -> None:
    got = robust_estimate(1.5, 0.0, df=4, alpha=0.05)
    assert (got.std_error, got.statistic, got.p_value_normal, got.p_value_t) == (0.0, None, None, None)
    assert got.ci_normal == got.ci_t == (1.5, 1.5)


def test_interval_and_statistic_beyond_doubles_are_none() -> None:
    wide = t_test("welch", 1e308, 1e300, df=3.0, alpha=1e-300)
    assert wide.ci is None
    assert wide.p_value is not None
    far = t_test("welch", 1e300, 1e-300, df=3.0, alpha=0.05)
    assert (far.statistic, far.p_value) == (None, None)
    assert far.ci is not None
    assert all(map(math.isfinite, far.ci))
