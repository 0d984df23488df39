"""Adjusted p-values of whole results: over arms, over metrics, and past what could not be computed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.stats.frequentist import ArmSums, analyze_metric
from experiments.stats.multiplicity import benjamini_hochberg, bonferroni, holm, with_holm
from experiments.stats.results import MetricResult
from experiments.stats.sufficient import Moments

_P_VALUES = st.lists(st.none() | st.floats(0, 1), max_size=12)


def _metric(*arms: list[float]) -> MetricResult:
    sums = [ArmSums(arm=arm, n_assigned=len(values), moments=Moments.of(values)) for arm, values in enumerate(arms)]
    return analyze_metric(arms=sums, baseline=0, alpha=0.05)


_FIRST = _metric([1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [9.0], [7.0, 8.0, 9.5], [])
_SECOND = _metric([1.0, 2.0, 3.0, 1.5], [2.0, 4.0, 3.0, 6.0])


def _p_values(metric: MetricResult) -> list[float]:
    tests = [arm.effect.headline for arm in metric.arms if arm.effect and arm.effect.headline]
    return [test.p_value for test in tests if test.p_value is not None]


def test_holm_is_over_the_arms_of_a_metric_and_over_all_metrics() -> None:
    first, second = with_holm([_FIRST, _SECOND])
    within = [arm.effect.p_value_holm for arm in first.arms if arm.effect]
    of_all = [arm.effect.p_value_holm_all for metric in (first, second) for arm in metric.arms if arm.effect]
    p, q = _p_values(_FIRST), _p_values(_SECOND)
    assert [value for value in within if value is not None] == holm(p)
    assert [value for value in of_all if value is not None] == holm([*p, *q])
    assert second.arms[1].effect is not None
    assert second.arms[1].effect.p_value_holm == q[0]


def test_arm_without_a_test_has_no_adjusted_p_value() -> None:
    first, _ = with_holm([_FIRST, _SECOND])
    assert first.arms[2].status == "error_not_estimable"
    assert first.arms[2].effect is not None
    assert first.arms[2].effect.p_value_holm is None
    assert first.arms[2].effect.p_value_holm_all is None
    assert first.arms[4].effect is None


def test_no_metrics_are_no_results() -> None:
    assert with_holm([]) == ()


@given(_P_VALUES)
@settings(max_examples=100, deadline=None)
def test_adjusted_p_values_keep_their_order_and_never_fall(p_values: list[float | None]) -> None:
    for adjust in (bonferroni, holm, benjamini_hochberg):
        got = adjust(p_values)
        assert [value is None for value in got] == [value is None for value in p_values]
        pairs = sorted((p, a) for p, a in zip(p_values, got, strict=True) if p is not None and a is not None)
        assert all(p <= a <= 1 for p, a in pairs)
        assert [a for _, a in pairs] == sorted(a for _, a in pairs)
    for strict, mild in zip(bonferroni(p_values), holm(p_values), strict=True):
        assert strict is None or (mild is not None and mild <= strict)
