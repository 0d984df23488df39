"""Sums of a cluster-randomised metric by (cluster, arm), in arrays: a million cells take about 30 MB."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

type Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
type Integers = np.ndarray[tuple[int], np.dtype[np.int64]]

_ROUNDING = 2.0**-46  # of a sum of deviations beside what was added up: 64 times that of one double


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterCells:
    """One entry per (cluster, arm) with observed outcomes; entries of the same pair add up.

    ``cluster`` counts from 0 to ``n_clusters`` - 1. ``dev`` is the sum of the entry's ``n`` outcomes, each less a
    number near the arm's mean that all entries of the arm share.
    """

    arm: Integers
    cluster: Integers
    n: Floats
    dev: Floats
    n_clusters: int

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, int | float | Decimal, float]]) -> ClusterCells:
        """From rows of (arm, cluster, n, centre, sum_dev)."""
        builder = ClusterCellsBuilder()
        for arm, cluster, n, centre, sum_dev in rows:
            builder.add(arm=arm, cluster=cluster, n=n, centre=centre, sum_dev=sum_dev)
        return builder.build()

    def counts(self) -> dict[int, int]:
        """Outcomes by arm."""
        arms, index = np.unique(self.arm, return_inverse=True)
        totals = np.bincount(index, weights=self.n, minlength=len(arms))
        return {int(arm): int(total) for arm, total in zip(arms, totals, strict=True)}

    def n_clusters_of(self, arm: int) -> int:
        """Clusters in which the arm has outcomes."""
        return int(np.count_nonzero(np.bincount(self.cluster[self.arm == arm], minlength=self.n_clusters)))

    def residuals(self, arm: int, *, sd: float) -> ArmClusters:
        """The arm's counts and sums of residuals from its mean, over all clusters. ``sd`` tells rounding noise from
        sums."""
        here = self.arm == arm
        cluster = self.cluster[here]
        n = np.bincount(cluster, weights=self.n[here], minlength=self.n_clusters)
        dev = np.bincount(cluster, weights=self.dev[here], minlength=self.n_clusters)
        total = float(n.sum())
        shift = float(dev.sum()) / total if total else 0.0
        residual = dev - n * shift
        noise = _ROUNDING * n * (sd + abs(shift))
        residual[np.abs(residual) <= noise] = 0.0
        return ArmClusters(n=n, residual=residual, noise=noise, total=total)


@dataclass(frozen=True, kw_only=True, eq=False)
class ArmClusters:
    """``n`` outcomes and the sum ``residual`` of their deviations from the arm's mean, for every cluster of the metric.

    A residual, or a difference of residuals, that is within ``noise`` is 0 but for rounding, and must be taken for 0:
    it would become a standard error that is tiny, and a test that is sure of nothing.
    """

    n: Floats
    residual: Floats
    noise: Floats
    total: float


class ClusterCellsBuilder:
    """Collects cells chunk by chunk. Chunks may come in any order and a cell in several parts."""

    def __init__(self) -> None:
        self._arm, self._cluster, self._n, self._dev = array("q"), array("q"), array("d"), array("d")
        self._origins: dict[int, Fraction] = {}
        self._shifts: dict[int, tuple[int | float | Decimal, float]] = {}

    def add(self, *, arm: int, cluster: int, n: int, centre: int | float | Decimal | None, sum_dev: float) -> None:
        """One group of ``arm_sums``: ``sum_dev`` is the sum of ``value - centre``. Without outcomes it changes nothing.

        Raises ``ValueError`` when there are outcomes but no centre.
        """
        if n == 0:
            return
        if centre is None:
            raise ValueError(f"centre must be a number where n is {n}")
        self._arm.append(arm)
        self._cluster.append(cluster)
        self._n.append(n)
        self._dev.append(sum_dev + n * self._shift(arm, centre))

    def build(self) -> ClusterCells:
        """The collected cells. The builder's memory becomes theirs, so nothing can be added afterwards."""
        known, cluster = np.unique(np.asarray(self._cluster, dtype=np.int64), return_inverse=True)
        return ClusterCells(
            arm=np.asarray(self._arm, dtype=np.int64),
            cluster=cluster.astype(np.int64, copy=False),
            n=np.asarray(self._n, dtype=np.float64),
            dev=np.asarray(self._dev, dtype=np.float64),
            n_clusters=len(known),
        )

    def _shift(self, arm: int, centre: int | float | Decimal) -> float:
        """The chunk's centre minus the arm's first one, exact until the last step; computed once for a chunk."""
        last = self._shifts.get(arm)
        if last is not None and last[0] == centre:
            return last[1]
        exact = Fraction(centre)
        shift = float(exact - self._origins.setdefault(arm, exact))
        self._shifts[arm] = (centre, shift)
        return shift
