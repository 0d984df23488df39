"""Cells of clusters: chunks in any order, and what a centre must be."""

from __future__ import annotations

import time
from decimal import Decimal
from itertools import permutations

import numpy as np
import pytest

from experiments.stats.clusters import ClusterCells, ClusterCellsBuilder
from experiments.stats.frequentist import ArmSums, analyze_metric
from experiments.stats.sufficient import Moments

_ROWS = [(1, 7, 3, 10.0, 0.5), (1, 8, 2, 11.5, -0.25), (2, 7, 4, 9.0, 1.5), (2, 9, 1, 9.5, 0.25), (1, 7, 2, 11.5, 0.75)]


def test_chunks_come_in_any_order() -> None:
    expected = ClusterCells.of(_ROWS).residuals(1, sd=1.0)
    for rows in permutations(_ROWS):
        got = ClusterCells.of(rows).residuals(1, sd=1.0)
        np.testing.assert_array_equal(got.n, expected.n)
        np.testing.assert_allclose(got.residual, expected.residual, rtol=0, atol=1e-13)


def test_entries_of_one_cluster_and_arm_add_up() -> None:
    got = ClusterCells.of(_ROWS).residuals(1, sd=1.0)
    assert got.n.tolist() == [5.0, 2.0, 0.0]
    mean = (3 * 10 + 0.5 + 2 * 11.5 - 0.25 + 2 * 11.5 + 0.75) / 7
    assert got.residual.tolist() == pytest.approx([30.5 + 23.75 - 5 * mean, 22.75 - 2 * mean, 0.0], abs=1e-12)


def test_centres_far_from_zero_cost_no_digits() -> None:
    rows = [(1, 0, 2, Decimal("1000000000000.1"), 0.1), (1, 1, 2, Decimal("1000000000000.3"), -0.1)]
    got = ClusterCells.of(rows).residuals(1, sd=0.1)
    assert got.residual.tolist() == pytest.approx([-0.1, 0.1], rel=1e-14)


def test_residuals_that_are_zero_but_for_rounding_are_exactly_zero() -> None:
    """Every cluster has the arm's mean, 0.2, in numbers that no double is."""
    values = {1: [0.1, 0.3], 2: [0.1, 0.3, 0.05, 0.35, 0.2], 3: [0.2], 4: [0.13, 0.27, 0.2]}
    rows = [(1, cluster, 1, 0.1, value - 0.1) for cluster, of_it in values.items() for value in of_it]
    got = ClusterCells.of(rows).residuals(1, sd=0.1)
    assert got.residual.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_clusters_without_outcomes_are_not_counted() -> None:
    cells = ClusterCells.of([*_ROWS, (1, 10, 0, 0.0, 0.0)])
    assert cells.n_clusters == 3
    assert cells.counts() == {1: 7, 2: 5}
    assert cells.n_clusters_of(1) == 2


def test_outcomes_without_a_centre_are_refused() -> None:
    with pytest.raises(ValueError, match="centre must be a number where n is 2"):
        ClusterCellsBuilder().add(arm=1, cluster=1, n=2, centre=None, sum_dev=0.0)


def test_no_cells_at_all_are_an_analysis_without_data() -> None:
    arms = [ArmSums(arm=arm, n_assigned=2, moments=Moments.empty(), n_null=2) for arm in (1, 2)]
    got = analyze_metric(arms=arms, baseline=1, alpha=0.05, clusters=ClusterCells.of([]))
    assert [arm.status for arm in got.arms] == ["no_data", "no_data"]
    assert (got.n_clusters, got.df_t) == (0, None)


def test_a_million_clusters_are_analysed_in_seconds() -> None:
    source = np.random.default_rng(1)
    n = 1_000_000
    arm, dev = source.integers(1, 4, n), source.normal(size=n)
    cells = ClusterCells(
        arm=arm, cluster=np.arange(n), n=np.full(n, 2.0), dev=dev, n_clusters=n
    )  # as a builder would have it
    arms = [
        ArmSums(
            arm=number,
            n_assigned=2 * int((arm == number).sum()),
            moments=Moments.from_centred(
                n=2 * int((arm == number).sum()),
                centre=0,
                sum_dev=float(dev[arm == number].sum()),
                sum_sq_dev=2 * float((dev[arm == number] ** 2).sum()),
            ),
        )
        for number in (1, 2, 3)
    ]
    began = time.perf_counter()
    got = analyze_metric(arms=arms, baseline=1, alpha=0.05, clusters=cells)
    assert time.perf_counter() - began < 10  # half a second on an idle machine; squared in clusters it would be days
    effect = got.arms[1].effect
    assert effect is not None
    assert effect.headline is not None
    assert effect.headline.df > 100_000
