"""The variances that an analysis needs of arm means and their differences, by design: independent participants, or
clusters. One interface, so that the analysis reads the same for both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from experiments.stats.clusters import ArmClusters, ClusterCells
from experiments.stats.cr2 import cr2, cr2_of_mean, cr2_unclustered
from experiments.stats.robust import cr1, hc1
from experiments.stats.sufficient import Moments
from experiments.stats.welch import welch


class ErrorsOfMeans(Protocol):
    """Arms are asked for by number. Variances only of arms without an ``obstacle``."""

    @property
    def method(self) -> str: ...

    @property
    def df_t(self) -> int | None: ...

    @property
    def n_clusters(self) -> int | None: ...

    def obstacle(self, arm: int) -> str | None:
        """What keeps the error of the arm's mean from being estimated, as the end of "this arm ..."."""
        ...

    def n_clusters_of(self, arm: int) -> int | None: ...

    def robust_of_mean(self, arm: int) -> float: ...

    def robust_of_difference(self, arm: int, baseline: int) -> float: ...

    def headline(self, arm: int, baseline: int, *, weight: float = 1.0) -> tuple[float, float]:
        """Variance and degrees of freedom of the arm's mean minus ``weight`` times the baseline's."""
        ...

    def headline_of_mean(self, arm: int) -> float: ...

    def cr2(self, arm: int, baseline: int) -> tuple[float, float]: ...


class IndependentErrors:
    """Every participant is independent of all others: Welch's test, beside it HC1."""

    method = "welch"
    n_clusters = None

    def __init__(self, samples: Mapping[int, Moments]) -> None:
        self._samples = samples
        self._n = sum(sample.n for sample in samples.values())
        self.df_t = self._n - len(samples) if samples else None

    def obstacle(self, arm: int) -> str | None:
        return _obstacle(self._samples[arm])

    def n_clusters_of(self, arm: int) -> int | None:
        return None

    def robust_of_mean(self, arm: int) -> float:
        return hc1(self._samples[arm], n=self._n, k=len(self._samples))

    def robust_of_difference(self, arm: int, baseline: int) -> float:
        return hc1(self._samples[arm], self._samples[baseline], n=self._n, k=len(self._samples))

    def headline(self, arm: int, baseline: int, *, weight: float = 1.0) -> tuple[float, float]:
        return welch(self._samples[arm], self._samples[baseline], weight=weight)

    def headline_of_mean(self, arm: int) -> float:
        sample = self._samples[arm]
        return sample.centred_ss / (sample.n - 1) / sample.n

    def cr2(self, arm: int, baseline: int) -> tuple[float, float]:
        return cr2_unclustered(self._samples[arm], self._samples[baseline])


class ClusteredErrors:
    """Participants of one cluster may resemble one another: CR2, beside it CR1. Arms may share clusters.

    Arrays over all clusters are made when an arm is asked for and kept for the baseline only, so memory does not grow
    with the number of arms. Raises ``ValueError`` when cells and samples count different outcomes.
    """

    method = "cr2"

    def __init__(self, samples: Mapping[int, Moments], cells: ClusterCells, *, baseline: int) -> None:
        self._samples = samples
        self._cells = cells
        self._n = sum(sample.n for sample in samples.values())
        self.n_clusters: int = cells.n_clusters
        self.df_t = cells.n_clusters - 1 if samples else None
        counted = cells.counts()
        if counted != {arm: sample.n for arm, sample in samples.items()}:
            told = {arm: sample.n for arm, sample in samples.items()}
            raise ValueError(f"clusters: cells count outcomes by arm as {counted}, arms as {told}")
        self._arms_clusters = {arm: cells.n_clusters_of(arm) for arm in samples}
        self._baseline = baseline
        self._kept: dict[int, ArmClusters] = {}

    def obstacle(self, arm: int) -> str | None:
        return _obstacle(self._samples[arm]) or ("lies in one cluster" if self._arms_clusters[arm] < 2 else None)

    def n_clusters_of(self, arm: int) -> int | None:
        return self._arms_clusters.get(arm, 0)

    def robust_of_mean(self, arm: int) -> float:
        return cr1(self._arm(arm), n=self._n, k=len(self._samples), n_clusters=self.n_clusters)

    def robust_of_difference(self, arm: int, baseline: int) -> float:
        return cr1(self._arm(arm), self._arm(baseline), n=self._n, k=len(self._samples), n_clusters=self.n_clusters)

    def headline(self, arm: int, baseline: int, *, weight: float = 1.0) -> tuple[float, float]:
        return cr2(self._arm(arm), self._arm(baseline), weight=weight)

    def headline_of_mean(self, arm: int) -> float:
        return cr2_of_mean(self._arm(arm))

    def cr2(self, arm: int, baseline: int) -> tuple[float, float]:
        return self.headline(arm, baseline)

    def _arm(self, arm: int) -> ArmClusters:
        if arm not in self._kept:
            for other in [kept for kept in self._kept if kept != self._baseline]:
                del self._kept[other]
            self._kept[arm] = self._cells.residuals(arm, sd=self._samples[arm].sd or 0.0)
        return self._kept[arm]


def _obstacle(sample: Moments) -> str | None:
    if sample.overflowed:
        return "has outcomes too large for double arithmetic"
    return "has only one usable outcome" if sample.n < 2 else None
