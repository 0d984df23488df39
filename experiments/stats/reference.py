"""Tests and intervals of an estimate whose standard error is known: the normal and Student's t distribution."""

import math

from scipy import special

from experiments.stats.results import HypothesisTest, Interval, RobustEstimate


def robust_estimate(estimate: float | None, variance: float | None, *, df: int | None, alpha: float) -> RobustEstimate:
    """Without a ``variance`` the estimate stands alone. With 0 there is an error but nothing to test against."""
    std_error = None if variance is None else math.sqrt(variance)
    if estimate is None or std_error is None or df is None:
        return RobustEstimate(
            estimate=estimate,
            std_error=None,
            statistic=None,
            p_value_normal=None,
            p_value_t=None,
            ci_normal=None,
            ci_t=None,
        )
    statistic = finite(estimate / std_error) if std_error > 0 else None
    return RobustEstimate(
        estimate=estimate,
        std_error=std_error,
        statistic=statistic,
        p_value_normal=None if statistic is None else normal_p_value(statistic),
        p_value_t=None if statistic is None else t_p_value(statistic, df),
        ci_normal=interval(estimate, std_error, normal_quantile(alpha)),
        ci_t=interval(estimate, std_error, t_quantile(alpha, df)),
    )


def t_test(method: str, estimate: float, variance: float, *, df: float, alpha: float) -> HypothesisTest:
    """``variance`` is above 0 and finite."""
    std_error = math.sqrt(variance)
    statistic = finite(estimate / std_error)
    return HypothesisTest(
        method=method,
        std_error=std_error,
        df=df,
        statistic=statistic,
        p_value=None if statistic is None else t_p_value(statistic, df),
        ci=interval(estimate, std_error, t_quantile(alpha, df)),
    )


def normal_p_value(statistic: float) -> float:
    return float(2 * special.ndtr(-abs(statistic)))


def t_p_value(statistic: float, df: float) -> float:
    return float(2 * special.stdtr(df, -abs(statistic)))


def normal_quantile(alpha: float) -> float:
    """The statistic that is exceeded with probability ``alpha``, on both sides together."""
    return float(-special.ndtri(alpha / 2))


def t_quantile(alpha: float, df: float) -> float:
    return float(-special.stdtrit(df, alpha / 2))


def interval(estimate: float, std_error: float, quantile: float) -> Interval | None:
    low, high = estimate - quantile * std_error, estimate + quantile * std_error
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
