"""The smallest effect that an experiment of the present size would probably find."""

from scipy import special

from experiments.stats.reference import finite, t_quantile


def minimum_detectable_effect(*, std_error: float, df: float, alpha: float, power: float) -> float | None:
    """In the unit of the metric: a true effect of this size is found significant at ``alpha`` (two-sided) with the
    probability ``power``, were the standard error and degrees of freedom to stay as they are.

    From the noncentral t distribution. What is found with the wrong sign does not count; 0 when chance alone finds
    something that often. ``None`` beyond doubles.
    """
    if power <= alpha / 2:
        return 0.0
    return finite(float(special.nctdtrinc(df, 1 - power, t_quantile(alpha, df))) * std_error)
