"""CR2's closed form beside the definition, computed with matrices over the rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.stats.clusters import ClusterCells
from experiments.stats.cr2 import cr2, cr2_of_mean, cr2_unclustered
from experiments.stats.robust import cr1
from experiments.stats.sufficient import Moments

type Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _by_matrices(arm: Array, cluster: Array, y: Array, contrast: Array) -> tuple[float, float]:
    """Bell and McCaffrey's variance of the contrast and its degrees of freedom, with independent working errors."""
    x = (arm[:, None] == np.arange(len(contrast))).astype(float)
    bread = np.linalg.inv(x.T @ x)
    residual_maker = np.eye(len(y)) - x @ bread @ x.T
    residuals = residual_maker @ y
    variance = 0.0
    columns = []
    for g in np.unique(cluster):
        rows = cluster == g
        own = residual_maker[np.ix_(rows, rows)]
        values, vectors = np.linalg.eigh(own)
        inverse_root = vectors @ np.diag([v**-0.5 if v > 1e-9 else 0.0 for v in values]) @ vectors.T
        weights = inverse_root @ x[rows] @ bread @ contrast
        variance += float(weights @ residuals[rows]) ** 2
        columns.append(residual_maker[:, rows] @ weights)
    p = np.array(columns)
    gram = p @ p.T
    return variance, float(np.trace(gram) ** 2 / np.sum(gram**2))


def _sample(seed: int, *, mixed: bool) -> tuple[Array, Array, Array]:
    """Three arms in nine clusters of different sizes; the outcomes of a cluster resemble one another."""
    source = np.random.default_rng(seed)
    sizes = source.integers(2, 9, 9)
    cluster = np.repeat(np.arange(9), sizes).astype(float)
    arm = source.integers(0, 3, len(cluster)) if mixed else np.repeat(np.arange(9) % 3, sizes)
    y = source.normal(size=9)[cluster.astype(int)] + source.normal(size=len(cluster)) + arm
    return arm.astype(float), cluster, y


def _cells(arm: Array, cluster: Array, y: Array) -> ClusterCells:
    """Every participant an entry of its own, around a centre of its arm's that is not the mean."""
    return ClusterCells.of(
        (int(a), int(g), 1, float(a) + 0.5, float(value) - (float(a) + 0.5))
        for a, g, value in zip(arm, cluster, y, strict=True)
    )


@pytest.mark.parametrize("mixed", [False, True], ids=["clusters in one arm", "arms in all clusters"])
@pytest.mark.parametrize("weight", [1.0, 0.7, -2.5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_closed_form_is_the_definition(seed: int, weight: float, mixed: bool) -> None:
    arm, cluster, y = _sample(seed, mixed=mixed)
    cells = _cells(arm, cluster, y)
    a, b = cells.residuals(2, sd=1.0), cells.residuals(0, sd=1.0)
    variance, df = cr2(a, b, weight=weight)
    expected, expected_df = _by_matrices(arm, cluster, y, np.array([-weight, 0.0, 1.0]))
    assert math.isclose(variance, expected, rel_tol=1e-10)
    assert math.isclose(df, expected_df, rel_tol=1e-10)
    assert math.isclose(cr2_of_mean(a), _by_matrices(arm, cluster, y, np.array([0.0, 0.0, 1.0]))[0], rel_tol=1e-10)


def test_participants_as_clusters_give_the_unclustered_form() -> None:
    source = np.random.default_rng(4)
    y = [float(value) for value in source.normal(size=12)]
    arm = [0.0] * 5 + [1.0] * 7
    cells = _cells(np.array(arm), np.arange(12.0), np.array(y))
    by_cells = cr2(cells.residuals(1, sd=1.0), cells.residuals(0, sd=1.0))
    assert by_cells == pytest.approx(cr2_unclustered(Moments.of(y[5:]), Moments.of(y[:5])), rel=1e-12)


def test_cluster_effects_that_cancel_in_every_cluster_leave_exactly_no_error() -> None:
    """Each cluster has both arms and the same difference; what is left is rounding, which must not become an error."""
    rows = []
    for cluster in range(7):
        level = 0.1 * cluster + 0.3
        rows += [(0, cluster, 3, 0.0, 3 * level), (1, cluster, 3, 0.0, 3 * (level + 0.7))]
    cells = ClusterCells.of(rows)
    a, b = cells.residuals(1, sd=1.0), cells.residuals(0, sd=1.0)
    assert cr2(a, b)[0] == 0.0
    assert cr1(a, b, n=42, k=2, n_clusters=7) == 0.0
    assert cr1(a, n=42, k=2, n_clusters=7) > 0.0
