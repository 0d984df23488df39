"""P-values adjusted for the number of comparisons. One that could not be computed stays ``None`` and is not counted."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from experiments.stats.results import ArmResult, MetricResult

type PValues = Sequence[float | None]


def bonferroni(p_values: PValues) -> list[float | None]:
    """Keeps the chance of any false finding at alpha."""
    return _adjusted(p_values, lambda ranked: [min(1.0, len(ranked) * p) for p in ranked])


def holm(p_values: PValues) -> list[float | None]:
    """Keeps the chance of any false finding at alpha, whatever the dependence, and is never weaker than
    Bonferroni's."""
    return _adjusted(p_values, _holm)


def benjamini_hochberg(p_values: PValues) -> list[float | None]:
    """Keeps the expected share of false ones among the findings at alpha, for independent or positively dependent
    tests."""
    return _adjusted(p_values, _benjamini_hochberg)


def with_holm(metrics: Sequence[MetricResult]) -> tuple[MetricResult, ...]:
    """The same results with Holm's adjusted p-values of the headline tests: over the arms of each metric in
    ``p_value_holm``, over all arms of all these metrics in ``p_value_holm_all``."""
    over_all = iter(holm([_p_value(arm) for metric in metrics for arm in metric.arms]))
    return tuple(_with_holm(metric, [next(over_all) for _ in metric.arms]) for metric in metrics)


def _with_holm(metric: MetricResult, over_all: PValues) -> MetricResult:
    within = holm([_p_value(arm) for arm in metric.arms])
    arms = zip(metric.arms, within, over_all, strict=True)
    return replace(metric, arms=tuple(_set(arm, of_metric, of_all) for arm, of_metric, of_all in arms))


def _set(arm: ArmResult, of_metric: float | None, of_all: float | None) -> ArmResult:
    if arm.effect is None:
        return arm
    return replace(arm, effect=replace(arm.effect, p_value_holm=of_metric, p_value_holm_all=of_all))


def _p_value(arm: ArmResult) -> float | None:
    return arm.effect.headline.p_value if arm.effect and arm.effect.headline else None


def _adjusted(p_values: PValues, adjust: Callable[[list[float]], list[float]]) -> list[float | None]:
    """``adjust`` gets the computable ones in ascending order."""
    ranked = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    for (_, index), value in zip(ranked, adjust([p for p, _ in ranked]), strict=True):
        adjusted[index] = value
    return adjusted


def _holm(ranked: list[float]) -> list[float]:
    adjusted, largest = [], 0.0
    for rank, p in enumerate(ranked):
        largest = max(largest, min(1.0, (len(ranked) - rank) * p))
        adjusted.append(largest)
    return adjusted


def _benjamini_hochberg(ranked: list[float]) -> list[float]:
    adjusted, smallest = [], 1.0
    for rank in range(len(ranked), 0, -1):
        smallest = min(smallest, ranked[rank - 1] * (len(ranked) / rank))
        adjusted.append(smallest)
    return adjusted[::-1]
