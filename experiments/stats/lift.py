"""The relative lift: the effect as a fraction of the baseline's mean, by the delta method."""

import math

from experiments.stats.reference import finite, interval, t_quantile
from experiments.stats.results import Lift

CLEARLY_AWAY = 4.0
BEYOND_DOUBLES = "the ratio is beyond the range of doubles"


def obstacle(*, baseline_mean: float, baseline_variance: float) -> str | None:
    """Why no lift is told. A baseline within ``CLEARLY_AWAY`` of its standard errors from zero makes the ratio's
    distribution too skewed for a symmetric interval."""
    if baseline_mean == 0:
        return "the baseline's mean is 0"
    if abs(baseline_mean) < CLEARLY_AWAY * math.sqrt(baseline_variance):
        return f"the baseline's mean is within {CLEARLY_AWAY:g} standard errors of zero"
    return None


def relative_lift(*, effect: float, baseline_mean: float, variance: float, df: float, alpha: float) -> Lift:
    """``effect / |baseline_mean|``, so that it has the sign of the effect.

    ``variance`` and ``df`` are those of ``mean - ratio * baseline_mean``, where ratio is that of the two means: its
    standard error divided by the baseline's mean is the delta method's.
    """
    estimate = finite(effect / abs(baseline_mean))
    std_error = finite(math.sqrt(variance) / abs(baseline_mean))
    if estimate is None or std_error is None:
        return no_lift(BEYOND_DOUBLES)
    ci = interval(estimate, std_error, t_quantile(alpha, df))
    return Lift(estimate=estimate, std_error=std_error, df=df, ci=ci, reason=None)


def no_lift(reason: str) -> Lift:
    return Lift(estimate=None, std_error=None, df=None, ci=None, reason=reason)
