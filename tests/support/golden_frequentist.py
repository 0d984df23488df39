"""Comparing a ``MetricResult`` with the reference's, and the sums of a reference case from its rows in memory."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.stats.clusters import ClusterCells
from experiments.stats.frequentist import ArmSums, analyze_metric
from experiments.stats.results import ArmResult, HypothesisTest, MetricResult, RobustEstimate
from experiments.stats.sufficient import Moments
from tests.support.golden import Case, Value, assert_close, outcome

_ROBUST = {
    "estimate": Value.ESTIMATE,
    "std_error": Value.PLAIN,
    "statistic": Value.STATISTIC,
    "p_value_normal": Value.P_VALUE,
    "p_value_t": Value.P_VALUE,
    "ci_normal": Value.ESTIMATE,
    "ci_t": Value.ESTIMATE,
}
_TEST = {
    "std_error": Value.PLAIN,
    "df": Value.PLAIN,
    "statistic": Value.STATISTIC,
    "p_value": Value.P_VALUE,
    "ci": Value.ESTIMATE,
}
_ARM = {
    "is_baseline": Value.PLAIN,
    "status": Value.PLAIN,
    "n_assigned": Value.PLAIN,
    "n_used": Value.PLAIN,
    "n_missing": Value.PLAIN,
    "mean": Value.ESTIMATE,
    "sd": Value.PLAIN,
    "sum": Value.ESTIMATE,
    "centered_ss": Value.PLAIN,
}


def analyzed(case: Case, metric: str) -> MetricResult:
    """The metric analysed from sums made in memory."""
    arms, clusters = sums(case, metric)
    baseline = case.inputs["arms"].index(case.inputs["baseline_arm"]) + 1
    return analyze_metric(arms=arms, baseline=baseline, alpha=case.inputs["alpha"], clusters=clusters)


def sums(case: Case, metric: str) -> tuple[list[ArmSums], ClusterCells | None]:
    """What an analysis needs, made in memory; arms are numbered from 1 in the case's order."""
    inputs = case.inputs
    number = {name: position for position, name in enumerate(inputs["arms"], start=1)}
    assigned = inputs["assignments"]
    rows = dict(zip(inputs["warehouse"]["participant_id"], inputs["warehouse"][metric], strict=True))
    outcomes: defaultdict[int, list[float]] = defaultdict(list)
    cells: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    counts: defaultdict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(_COUNTS, 0))
    clusters = {name: index for index, name in enumerate(dict.fromkeys(assigned.get("cluster", [])))}
    for index, (participant, name) in enumerate(zip(assigned["participant_id"], assigned["arm"], strict=True)):
        arm = number[name]
        counts[arm]["n_assigned"] += 1
        value = outcome(rows.get(participant))
        if participant not in rows:
            counts[arm]["n_not_in_warehouse"] += 1
        elif value is None:
            counts[arm]["n_null"] += 1
        elif isinstance(value, float) and not math.isfinite(value):
            counts[arm]["n_non_finite"] += 1
        else:
            assert isinstance(value, (int, float))
            outcomes[arm].append(value)
            if clusters:
                cells[arm, clusters[assigned["cluster"][index]]].append(value)
    arms = [ArmSums(arm=arm, moments=Moments.of(outcomes[arm]), **counts[arm]) for arm in number.values()]
    return arms, _cells(cells) if inputs["clustered"] else None


_COUNTS = ("n_assigned", "n_not_in_warehouse", "n_null", "n_non_finite")


def _cells(cells: Mapping[tuple[int, int], Sequence[float]]) -> ClusterCells:
    centres = {arm: values[0] for (arm, _), values in cells.items()}
    return ClusterCells.of(
        (arm, cluster, len(values), centres[arm], math.fsum(value - centres[arm] for value in values))
        for (arm, cluster), values in cells.items()
    )


def assert_metric(case: Case, metric: str, got: MetricResult) -> None:
    """Everything the reference says about the metric, arm by arm in the case's order."""
    expected = case.expected["metrics"][metric]
    assert got.n_assigned == case.expected["n_assigned"]
    assert got.n_not_in_warehouse == case.expected["n_not_in_warehouse"]
    for name in ("n_used", "n_arms_used", "n_clusters", "df_t"):
        assert getattr(got, name) == expected[name], f"{case}: {metric}: {name}"
    assert len(got.arms) == len(case.inputs["arms"])
    for name, arm in zip(case.inputs["arms"], got.arms, strict=True):
        _assert_arm(case, arm, expected["arms"][name], f"{metric}: {name}")


def _assert_arm(case: Case, got: ArmResult, expected: Mapping[str, Any], what: str) -> None:
    for name, value in _ARM.items():
        ours = "centred_ss" if name == "centered_ss" else name
        assert_close(case, getattr(got, ours), expected[name], value, what=f"{what}: {name}")
    if "n_clusters" in expected:
        assert got.n_clusters == expected["n_clusters"], what
    _assert_robust(case, got.arm_mean, expected["arm_mean"], f"{what}: arm_mean")
    if expected["effect"] is None:
        assert got.effect is None, what
        return
    assert got.effect is not None, what
    _assert_robust(case, got.effect.robust, expected["effect"], f"{what}: effect")
    assert got.effect.estimate == got.effect.robust.estimate
    assert (got.effect.headline is not None) == (expected["status"] == "ok"), what
    cr2, welch = expected["effect"].get("cr2"), expected["effect"].get("welch")
    _assert_test(case, got.effect.cr2, cr2, f"{what}: cr2")
    _assert_test(case, got.effect.headline, cr2 if got.n_clusters is not None else welch, f"{what}: headline")


def _assert_robust(
    case: Case, got: RobustEstimate | None, expected: Mapping[str, float | None] | None, what: str
) -> None:
    if expected is None:
        assert got is None, what
        return
    for name, value in _ROBUST.items():
        assert_close(case, getattr(got, name), expected[name], value, what=f"{what}: {name}")


def _assert_test(case: Case, got: HypothesisTest | None, expected: Mapping[str, float] | None, what: str) -> None:
    """The reference has no CR2 of its larger cases."""
    if expected is None:
        return
    assert got is not None, what
    for name, value in _TEST.items():
        assert_close(case, getattr(got, name), expected[name], value, what=f"{what}: {name}")
