"""Bias-reduced cluster-robust variance (CR2; Bell and McCaffrey 2002) with Satterthwaite's degrees of freedom, in the
closed form it takes when the regressors are arm dummies. ``docs/statistics.md`` derives it."""

import numpy as np

from experiments.stats.clusters import ArmClusters, Floats
from experiments.stats.robust import contrast
from experiments.stats.sufficient import Moments


def cr2(a: ArmClusters, b: ArmClusters, *, weight: float = 1.0) -> tuple[float, float]:
    """Variance of ``mean(a) - weight * mean(b)`` and its degrees of freedom. Each arm must lie in two clusters or more.

    With t = n_ga / n_a, the share of arm a's outcomes in cluster g, the adjustment (I - H_gg)^(-1/2) multiplies the
    cluster's sum of residuals u_ga by (1 - t)^(-1/2). Degrees of freedom are trace(P)^2 / sum(P^2), where
    P = diag(d) - s_a s_a' - s_b s_b' is the covariance of the clusters' scores when outcomes are independent.
    """
    scale_a, d_a, s_a = _parts(a, 1.0)
    scale_b, d_b, s_b = _parts(b, weight)
    noise = scale_a * a.noise + np.abs(scale_b) * b.noise
    score = contrast(scale_a * a.residual, scale_b * b.residual, noise=noise)
    d = d_a + d_b
    own = s_a * s_a + s_b * s_b
    trace = 1 / a.total + weight * weight / b.total
    squares = float(d @ d - 2 * (d @ own)) + float(s_a @ s_a) ** 2 + float(s_b @ s_b) ** 2 + 2 * float(s_a @ s_b) ** 2
    return float(score @ score), trace * trace / squares


def cr2_of_mean(a: ArmClusters) -> float:
    """Variance of the mean of ``a``, which lies in two clusters or more."""
    score = _parts(a, 1.0)[0] * a.residual
    return float(score @ score)


def cr2_unclustered(a: Moments, b: Moments) -> tuple[float, float]:
    """The same where every participant is a cluster: Welch's variance, but degrees of freedom that do not depend on
    it."""
    variance = a.centred_ss / (a.n - 1) / a.n + b.centred_ss / (b.n - 1) / b.n
    trace = 1 / a.n + 1 / b.n
    return variance, trace * trace / (1 / (a.n * a.n * (a.n - 1)) + 1 / (b.n * b.n * (b.n - 1)))


def _parts(arm: ArmClusters, weight: float) -> tuple[Floats, Floats, Floats]:
    """By cluster: what turns a residual into the adjusted score, and the arm's parts d and s of P."""
    share = arm.n / arm.total
    adjustment = 1 / np.sqrt(1 - share)
    scale = weight * adjustment / arm.total
    d = weight * weight * adjustment * adjustment * share / arm.total
    s = weight * adjustment * share / np.sqrt(arm.total)
    return scale, d, s
