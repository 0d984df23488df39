"""The smallest effect that an experiment of the present size would probably find."""

from scipy import special

from experiments.stats.reference import finite, t_quantile


def minimum_detectable_effect(*, std_error: float, df: float, alpha: float, power: float) -> float | None:
    """In the unit of the metric: a true effect of this size is found significant at ``alpha`` (two-sided) with
    probability ``power``, were the standard error and degrees of freedom to stay as they are (Bloom 1995).
    """
    return finite((t_quantile(alpha, df) + float(special.stdtrit(df, power))) * std_error)
