"""Heteroscedasticity- and cluster-robust variances of arm means and their differences, HC1 and CR1: what ordinary least
squares of the outcome on arm dummies gives with those corrections, from sums alone."""

import numpy as np

from experiments.stats.clusters import ArmClusters
from experiments.stats.sufficient import Moments

_EPSILON = 2.0**-52


def hc1(*samples: Moments, n: int, k: int) -> float:
    """Variance of the sum or difference of the samples' means; ``n`` outcomes in ``k`` arms in the whole metric, n >
    k."""
    return sum(sample.centred_ss / sample.n / sample.n for sample in samples) * (n / (n - k))


def cr1(a: ArmClusters, b: ArmClusters | None = None, *, n: int, k: int, n_clusters: int) -> float:
    """Variance of the mean of ``a``, or of its difference from that of ``b``; n > k and at least two clusters."""
    score = a.residual / a.total if b is None else contrast(a.residual / a.total, b.residual / b.total)
    return float(score @ score) * (n_clusters / (n_clusters - 1)) * ((n - 1) / (n - k))


def contrast(
    a: np.ndarray[tuple[int], np.dtype[np.float64]], b: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """``a - b`` by cluster, where a difference that is only rounding is 0: such a variance must be exactly 0."""
    difference: np.ndarray[tuple[int], np.dtype[np.float64]] = a - b
    difference[np.abs(difference) <= 8 * _EPSILON * (np.abs(a) + np.abs(b))] = 0.0
    return difference
