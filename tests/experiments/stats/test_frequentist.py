"""The analysis of a metric: what must not change it, what must change it in step, and what it says when it cannot."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.stats.clusters import ClusterCells
from experiments.stats.frequentist import ArmSums, analyze_metric
from experiments.stats.results import Effect, MetricResult, Status
from experiments.stats.sufficient import Moments

# Outcomes as (cluster, value); values are multiples of 1/64, so that shifting them by 2**30 rounds nothing.
type Rows = list[tuple[int, float]]
_VALUES = st.integers(-(2**12), 2**12).map(lambda number: number / 64)
_ROWS: st.SearchStrategy[Rows] = st.lists(st.tuples(st.integers(1, 6), _VALUES), min_size=2, max_size=15)
_ARMS = st.lists(_ROWS, min_size=2, max_size=4)
_SETTINGS = settings(max_examples=60, deadline=None)


def _analysed(
    arms: Mapping[int, Rows], *, clustered: bool, baseline: int = 1, batch: int = 1000, alpha: float = 0.05
) -> MetricResult:
    """In chunks of ``batch``, each around its own first value."""
    sums, cells = [], []
    for arm, rows in arms.items():
        moments = Moments.empty()
        for start in range(0, len(rows), batch):
            chunk = rows[start : start + batch]
            moments = moments.merge(Moments.of([value for _, value in chunk]))
            cells += [(arm, cluster, 1, chunk[0][1], value - chunk[0][1]) for cluster, value in chunk]
        sums.append(ArmSums(arm=arm, n_assigned=len(rows) + 1, moments=moments, n_null=1))
    clusters = ClusterCells.of(cells) if clustered else None
    return analyze_metric(arms=sums, baseline=baseline, alpha=alpha, clusters=clusters)


def _numbered(arms: Sequence[Rows]) -> dict[int, Rows]:
    return dict(enumerate(arms, start=1))


_WITHOUT_UNIT = {"df", "statistic", "p_value", "p_value_normal", "p_value_t", "lift", "missingness", "alpha", "power"}


def _same(got: object, expected: object, *, scale: float, what: str = "") -> None:
    """Equal, where floats may differ by the rounding of themselves, or of the outcomes (``scale``) where these cancel.
    What has no unit must not profit from the outcomes' scale."""
    if isinstance(expected, Mapping):
        assert isinstance(got, Mapping)
        for name, value in expected.items():
            _same(got[name], value, scale=1.0 if name in _WITHOUT_UNIT else scale, what=f"{what}.{name}")
    elif isinstance(expected, (list, tuple)):
        assert isinstance(got, (list, tuple))
        assert len(got) == len(expected)
        for index, value in enumerate(expected):
            _same(got[index], value, scale=scale, what=f"{what}[{index}]")
    elif isinstance(expected, float):
        assert isinstance(got, float), f"{what}: {got!r} is not {expected!r}"
        assert math.isclose(got, expected, rel_tol=1e-8, abs_tol=1e-9 * scale), f"{what}: {got!r} is not {expected!r}"
    else:
        assert got == expected, f"{what}: {got!r} is not {expected!r}"


def _scale(arms: Sequence[Rows]) -> float:
    return max(1.0, *(abs(value) for rows in arms for _, value in rows))


@pytest.mark.parametrize("clustered", [False, True])
@given(arms=_ARMS, batch=st.integers(1, 5), source=st.randoms(use_true_random=False))
@_SETTINGS
def test_order_and_batches_do_not_matter(arms: list[Rows], batch: int, source: Any, clustered: bool) -> None:
    expected = asdict(_analysed(_numbered(arms), clustered=clustered))
    for rows in arms:
        source.shuffle(rows)
    got = asdict(_analysed(_numbered(arms), clustered=clustered, batch=batch))
    _same(got, expected, scale=_scale(arms))


@pytest.mark.parametrize("clustered", [False, True])
@given(arms=_ARMS)
@_SETTINGS
def test_numbers_of_arms_and_names_of_clusters_do_not_matter(arms: list[Rows], clustered: bool) -> None:
    expected = asdict(_analysed(_numbered(arms), clustered=clustered))
    renamed = {70 - arm: [(-3 * cluster, value) for cluster, value in rows] for arm, rows in _numbered(arms).items()}
    got = asdict(_analysed(dict(sorted(renamed.items())), clustered=clustered, baseline=69))
    got["baseline"], got["arms"] = 1, got["arms"][::-1]
    for number, arm in enumerate(got["arms"], start=1):
        arm["arm"] = number
    _same(got, expected, scale=_scale(arms))


@pytest.mark.parametrize("clustered", [False, True])
@given(a=_ROWS, b=_ROWS)
@_SETTINGS
def test_swapping_baseline_and_treatment_turns_the_sign(a: Rows, b: Rows, clustered: bool) -> None:
    one = _analysed({1: a, 2: b}, clustered=clustered).arms[1].effect
    other = _analysed({1: b, 2: a}, clustered=clustered).arms[1].effect
    assert one is not None
    assert other is not None
    assert one.estimate == -other.estimate if one.estimate is not None and other.estimate is not None else False
    assert (one.headline is None) == (other.headline is None)
    if one.headline and other.headline:
        for name in ("std_error", "df", "p_value"):
            assert math.isclose(getattr(one.headline, name), getattr(other.headline, name), rel_tol=1e-9, abs_tol=1e-12)


def _moved(metric: MetricResult, move: Callable[[float], float], factor: float) -> dict[str, Any]:
    """What the analysis of moved outcomes must be, from that of the outcomes themselves: effects and errors only."""
    result: dict[str, Any] = {"arms": []}
    for arm in metric.arms:
        entry: dict[str, Any] = {
            "status": arm.status,
            "n_used": arm.n_used,
            "mean": move(arm.mean) if arm.mean is not None else None,
            "sd": arm.sd * abs(factor) if arm.sd is not None else None,
        }
        if arm.effect is not None:
            entry["effect"] = _moved_effect(arm.effect, factor)
        result["arms"].append(entry)
    return result


def _moved_effect(effect: Effect, factor: float) -> dict[str, Any]:
    moved: dict[str, Any] = {"estimate": effect.estimate * factor if effect.estimate is not None else None}
    for name in ("headline", "cr2"):
        test = getattr(effect, name)
        moved[name] = test and {
            "std_error": test.std_error * abs(factor),
            "df": test.df,
            "statistic": test.statistic * math.copysign(1, factor),
            "p_value": test.p_value,
            "ci": sorted(end * factor for end in test.ci),
        }
    mde = effect.minimum_detectable_effect
    moved["minimum_detectable_effect"] = mde * abs(factor) if mde is not None else None
    return moved


@pytest.mark.parametrize("clustered", [False, True])
@given(arms=_ARMS, shift=st.sampled_from([-7.0, 2.0**30, -(2.0**40)]))
@_SETTINGS
def test_shifting_all_outcomes_moves_means_alone(arms: list[Rows], shift: float, clustered: bool) -> None:
    before = _analysed(_numbered(arms), clustered=clustered)
    moved = [[(cluster, value + shift) for cluster, value in rows] for rows in arms]
    after = asdict(_analysed(_numbered(moved), clustered=clustered, batch=4))
    _same(after, _moved(before, lambda mean: mean + shift, 1.0), scale=_scale(arms))


@pytest.mark.parametrize("clustered", [False, True])
@given(arms=_ARMS, factor=st.sampled_from([-1.0, 2.0**-40, 2.0**32, -(2.0**-330), 2.0**400]))
@_SETTINGS
def test_scaling_all_outcomes_scales_effects_and_errors(arms: list[Rows], factor: float, clustered: bool) -> None:
    before = _analysed(_numbered(arms), clustered=clustered)
    scaled = [[(cluster, value * factor) for cluster, value in rows] for rows in arms]
    after = asdict(_analysed(_numbered(scaled), clustered=clustered))
    _same(after, _moved(before, lambda mean: mean * factor, factor), scale=_scale(arms) * abs(factor))


_AWKWARD: dict[str, list[list[float]]] = {
    "nothing": [[], []],
    "one each": [[1.0], [2.0]],
    "constant": [[2.0] * 4, [2.0] * 3],
    "constant elsewhere": [[0.1] * 4, [0.3] * 3],
    "baseline zero": [[0.0] * 3, [1.0, 2.0, 4.0]],
    "large": [[1e200, -1e200, 3e200], [1.0, 2.0]],
    "largest": [[1.7e308] * 3, [-1.7e308] * 3],
    "smallest": [[5e-324, 0.0, 1e-323], [0.0, 5e-324, 5e-324]],
    "far apart": [[1e-300, 2e-300, 1.1e-300], [1e140, 2e140, 1.5e140]],
    "no baseline": [[], [1.0, 2.0]],
}


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("name", _AWKWARD)
def test_result_is_json_without_nan_or_infinity(name: str, clustered: bool) -> None:
    arms = {arm: list(enumerate(values)) for arm, values in enumerate(_AWKWARD[name], start=1)}
    got = _analysed(arms, clustered=clustered)
    assert json.loads(json.dumps(asdict(got), allow_nan=False))["alpha"] == 0.05
    for arm in got.arms:
        untested = arm.effect is not None and arm.effect.headline is None
        assert (arm.reason is not None) == (arm.status not in (Status.OK, Status.BASELINE))
        assert untested == (arm.status in (Status.ERROR_NOT_ESTIMABLE, Status.ZERO_VARIANCE) and not arm.is_baseline)


def test_outcomes_beyond_double_arithmetic_are_not_estimable_and_spare_the_other_arm() -> None:
    arms = {1: [1.0, 2.0, 4.0], 2: [1e200, -1e200, 3e200], 3: [2.0, 3.0, 3.5]}
    got = _analysed({arm: list(enumerate(values)) for arm, values in arms.items()}, clustered=False)
    assert [arm.status for arm in got.arms] == ["baseline", "error_not_estimable", "ok"]
    assert got.arms[1].reason == "this arm has outcomes too large for double arithmetic"
    assert got.arms[1].arm_mean is not None
    assert got.arms[1].arm_mean.std_error is None


def test_baseline_of_one_cluster_leaves_estimates_alone() -> None:
    got = _analysed({1: [(1, 1.0), (1, 2.0)], 2: [(2, 3.0), (3, 4.0), (3, 4.5)]}, clustered=True)
    assert [arm.status for arm in got.arms] == ["error_not_estimable", "error_not_estimable"]
    assert got.arms[1].reason == "the baseline lies in one cluster"
    assert got.arms[1].effect is not None
    assert got.arms[1].effect.estimate == pytest.approx(7 / 3)
    assert got.arms[1].arm_mean is not None
    assert got.arms[1].arm_mean.std_error is not None


def test_equal_differences_in_all_clusters_are_zero_variance() -> None:
    levels = [0.1, 0.7, 0.4, 1.3]
    control = [(cluster, level) for cluster, level in enumerate(levels)] * 2
    treated = [(cluster, level + 0.2) for cluster, level in enumerate(levels)] * 2
    got = _analysed({1: control, 2: treated}, clustered=True).arms[1]
    assert got.status is Status.ZERO_VARIANCE
    assert got.effect is not None
    assert got.effect.robust.std_error == 0.0
    assert got.effect.robust.p_value_t is None
    assert got.effect.headline is None


def test_equal_arms_in_the_same_clusters_are_zero_variance_in_any_order() -> None:
    """Found by the test of order: what rounding left of the difference was taken for a standard error."""
    rows = [(1, 0.0), (1, 2 / 64), (1, 2 / 64), *[(2, 0.0)] * 10, (2, 13 / 64)]
    got = _analysed({1: rows, 2: rows[::-1]}, clustered=True, batch=1).arms[1]
    assert got.status is Status.ZERO_VARIANCE


def test_no_confidence_sequence_or_missingness_test_is_made_up_for_clusters() -> None:
    rows = [(index % 40, float(index % 7)) for index in range(400)]
    got = _analysed({1: rows, 2: rows[::2]}, clustered=True)
    effect = got.arms[1].effect
    assert effect is not None
    assert effect.confidence_sequence.ci is None
    assert "clustered" in (effect.confidence_sequence.reason or "")
    assert got.missingness.p_value is None
    assert "cluster" in (got.missingness.reason or "")


def _arms(*numbers: int) -> list[ArmSums]:
    return [ArmSums(arm=number, n_assigned=3, moments=Moments.of([1.0, 2.0, 4.0])) for number in numbers]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arms": _arms(1, 1)}, "arms: each may be given once"),
        ({"baseline": 3}, "baseline: arm 3 is not among the arms"),
        ({"alpha": 0.0}, "alpha: must lie between 0 and 1"),
        ({"alpha": math.nan}, "alpha: must lie between 0 and 1"),
        ({"power": 1.0}, "power: must lie between 0 and 1"),
        ({"power": math.nan}, "power: must lie between 0 and 1"),
        ({"sequence_tuned_at": 0}, "sequence_tuned_at: must be a number of outcomes"),
        ({"clusters": ClusterCells.of([(1, 1, 3, 0.0, 7.0)])}, "clusters: cells count outcomes by arm"),
    ],
)
def test_argument_that_makes_no_sense_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        analyze_metric(**{"arms": _arms(1, 2), "baseline": 1, "alpha": 0.05, **arguments})


def test_participants_counted_twice_or_not_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="arm 2: n_assigned is 5"):
        ArmSums(arm=2, n_assigned=5, moments=Moments.of([1.0, 2.0]), n_null=1, n_duplicate=1)
    with pytest.raises(ValueError, match="arm 2: n_assigned is 2"):
        ArmSums(arm=2, n_assigned=2, moments=Moments.of([1.0, 2.0]), n_null=1, n_duplicate=-1)
