"""The relative lift: its interval covers, and it is withheld where the baseline's mean may be zero."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.stats.clusters import ClusterCells
from experiments.stats.frequentist import ArmSums, analyze_metric
from experiments.stats.results import Lift
from experiments.stats.sufficient import Moments


def _lift(baseline: list[float], treated: list[float], *, clusters: ClusterCells | None = None) -> Lift:
    arms = [
        ArmSums(arm=arm, n_assigned=len(values), moments=Moments.of(values))
        for arm, values in enumerate((baseline, treated), start=1)
    ]
    effect = analyze_metric(arms=arms, baseline=1, alpha=0.05, clusters=clusters).arms[1].effect
    assert effect is not None
    return effect.lift


def test_lift_is_the_delta_method_with_welch_degrees_of_freedom() -> None:
    a, b = [3.0, 5.0, 4.0, 6.0, 4.5], [9.0, 11.0, 10.0, 10.5]
    got = _lift(b, a)
    ratio = np.mean(a) / np.mean(b)
    variance = (np.var(a, ddof=1) / 5 + ratio**2 * np.var(b, ddof=1) / 4) / np.mean(b) ** 2
    assert got.estimate is not None
    assert got.std_error is not None
    assert math.isclose(got.estimate, ratio - 1, rel_tol=1e-12)
    assert math.isclose(got.std_error, math.sqrt(variance), rel_tol=1e-12)
    assert got.ci is not None
    assert got.ci[0] < got.estimate < got.ci[1]


def test_clusters_shared_by_both_arms_make_the_ratio_sharper() -> None:
    """A cluster that is twice as large in both arms says nothing about their ratio."""
    sizes = [1.0, 2.0, 4.0, 8.0, 5.0, 3.0]
    rows = [(arm, cluster, 1, 0.0, size * arm) for cluster, size in enumerate(sizes) for arm in (1, 2)]
    got = _lift(sizes, [2 * size for size in sizes], clusters=ClusterCells.of(rows))
    assert got.reason == "the baseline's mean is within 4 standard errors of zero"
    shifted = [size + 20 for size in sizes]
    rows = [(arm, cluster, 1, 0.0, size * arm) for cluster, size in enumerate(shifted) for arm in (1, 2)]
    got = _lift(shifted, [2 * size for size in shifted], clusters=ClusterCells.of(rows))
    assert got.estimate == pytest.approx(1.0)
    assert got.std_error == pytest.approx(0.0, abs=1e-12)
    assert _lift(shifted, [2 * size for size in shifted]).std_error == pytest.approx(0.122, abs=0.005)


def test_lift_of_a_negative_baseline_has_the_sign_of_the_effect() -> None:
    got = _lift([-10.0, -11.0, -9.0, -10.0], [-5.0, -6.0, -5.5, -5.5])
    assert got.estimate == pytest.approx(0.45)
    assert got.ci is not None
    assert 0 < got.ci[0] < got.ci[1]


@pytest.mark.parametrize(
    ("baseline", "reason"),
    [
        ([-1.0, 1.0, 2.0, -2.0], "the baseline's mean is 0"),
        ([-1.0, 3.0, 2.0, 1.0], "the baseline's mean is within 4 standard errors of zero"),
    ],
)
def test_baseline_that_may_be_zero_has_no_lift(baseline: list[float], reason: str) -> None:
    got = _lift(baseline, [1.0, 2.0, 4.0])
    assert (got.estimate, got.std_error, got.ci) == (None, None, None)
    assert got.reason == reason


def test_ratio_beyond_doubles_has_no_lift() -> None:
    assert _lift([1e-300, 1.1e-300, 1.2e-300], [1e140, 2e140]).reason == "the ratio is beyond the range of doubles"


def test_interval_covers_the_true_lift() -> None:
    source = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        got = _lift(source.gamma(4, 0.25, 60).tolist(), (1.3 * source.gamma(4, 0.25, 40)).tolist())
        assert got.ci is not None
        covered += got.ci[0] <= 0.3 <= got.ci[1]
    assert 0.92 <= covered / 400 <= 0.98
