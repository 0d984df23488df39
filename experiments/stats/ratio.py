"""Ratio metrics (clicks per visit): the ratio of two sums over an arm's participants, with its error by the delta
method."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.stats.cross_moments import CrossMoments
from experiments.stats.reference import finite, interval, normal_p_value, normal_quantile
from experiments.stats.results import Interval

_ROUNDING = 2.0**-48


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Sum of numerators over sum of denominators; ``reason`` says why something is ``None``."""

    ratio: float | None
    std_error: float | None
    variance: float | None
    ci: Interval | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class RatioDifference:
    """An arm's ratio minus the baseline's, by the normal distribution: the delta method holds for large samples."""

    difference: float | None
    std_error: float | None
    statistic: float | None
    p_value: float | None
    ci: Interval | None
    reason: str | None


def ratio(sums: CrossMoments, *, alpha: float) -> Ratio:
    """``x`` of the pairs is the denominator, ``y`` the numerator; the participant is the unit that was assigned."""
    if sums.mean_x == 0:
        return Ratio(ratio=None, std_error=None, variance=None, ci=None, reason="the denominators add up to 0")
    value = finite(sums.mean_y / sums.mean_x)
    if value is None or sums.n < 2:
        reason = "the ratio is beyond the range of doubles" if value is None else "there is only one participant"
        return Ratio(ratio=value, std_error=None, variance=None, ci=None, reason=reason)
    variance = _spread(sums, value) / (sums.n - 1) / sums.n / sums.mean_x / sums.mean_x
    if finite(variance) is None:
        return Ratio(ratio=value, std_error=None, variance=None, ci=None, reason="beyond the range of doubles")
    std_error = math.sqrt(variance)
    ci = interval(value, std_error, normal_quantile(alpha))
    return Ratio(ratio=value, std_error=std_error, variance=variance, ci=ci, reason=None)


def ratio_differences(arms: Mapping[str, CrossMoments], *, baseline: str, alpha: float) -> dict[str, RatioDifference]:
    """By arm, for all but the baseline."""
    of_baseline = ratio(arms[baseline], alpha=alpha)
    return {
        name: _difference(ratio(sums, alpha=alpha), of_baseline, alpha)
        for name, sums in arms.items()
        if name != baseline
    }


def _spread(sums: CrossMoments, value: float) -> float:
    """Sum of squares of y - ratio x about its mean; 0 where the three terms leave nothing but rounding."""
    terms = (sums.product(0, 2), -2 * value * sums.product(1, 1), value * value * sums.product(2, 0))
    spread = math.fsum(terms)
    return spread if spread > _ROUNDING * sum(map(abs, terms)) else 0.0


def _difference(arm: Ratio, baseline: Ratio, alpha: float) -> RatioDifference:
    reason = arm.reason or (baseline.reason and f"baseline: {baseline.reason}")
    difference = None if arm.ratio is None or baseline.ratio is None else finite(arm.ratio - baseline.ratio)
    if difference is None or arm.variance is None or baseline.variance is None:
        return RatioDifference(
            difference=difference,
            std_error=None,
            statistic=None,
            p_value=None,
            ci=None,
            reason=reason or "the difference is beyond the range of doubles",
        )
    std_error = math.sqrt(arm.variance + baseline.variance)
    statistic = finite(difference / std_error) if std_error > 0 else None
    return RatioDifference(
        difference=difference,
        std_error=std_error,
        statistic=statistic,
        p_value=None if statistic is None else normal_p_value(statistic),
        ci=interval(difference, std_error, normal_quantile(alpha)),
        reason=None if statistic is not None else "the standard error is exactly 0",
    )
