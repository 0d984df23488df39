"""Heteroscedasticity- and cluster-robust variances of arm means and their differences, HC1 and CR1: what ordinary least
squares of the outcome on arm dummies gives with those corrections, from sums alone."""

import numpy as np

from experiments.stats.clusters import ArmClusters, Floats
from experiments.stats.sufficient import Moments


def hc1(*samples: Moments, n: int, k: int) -> float:
    """Variance of the sum or difference of the samples' means; ``n`` outcomes in ``k`` arms in the whole metric, n >
    k."""
    return sum(sample.centred_ss / sample.n / sample.n for sample in samples) * (n / (n - k))


def cr1(a: ArmClusters, b: ArmClusters | None = None, *, n: int, k: int, n_clusters: int) -> float:
    """Variance of the mean of ``a``, or of its difference from that of ``b``; n > k and at least two clusters."""
    score = a.residual / a.total
    if b is not None:
        score = contrast(score, b.residual / b.total, noise=a.noise / a.total + b.noise / b.total)
    return float(score @ score) * (n_clusters / (n_clusters - 1)) * ((n - 1) / (n - k))


def contrast(a: Floats, b: Floats, *, noise: Floats) -> Floats:
    """``a - b`` by cluster, where a difference within ``noise`` is 0: such a variance must be exactly 0."""
    difference: Floats = a - b
    difference[np.abs(difference) <= noise] = 0.0
    return difference
