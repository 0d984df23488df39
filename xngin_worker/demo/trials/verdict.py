"""Whether a snapshot's numbers are near what is known to be true of the demo's customers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from experiments.kinds import ExperimentType
from xngin_worker.demo.trials import truth


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One estimate with its interval, at the level of the experiment, beside the truth."""

    what: str
    estimate: float
    low: float
    high: float
    truth: float

    @property
    def holds(self) -> bool:
        return self.low <= self.truth <= self.high

    @property
    def is_far_off(self) -> bool:
        """Twice the interval of 95 % is one of 99.99 %: no accident puts the truth outside."""
        return not (2 * self.low - self.estimate <= self.truth <= 2 * self.high - self.estimate)

    def __str__(self) -> str:
        return f"{self.what} {self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}], truth {self.truth:.4g}"


def judge(kind: ExperimentType, data: Mapping[str, Any], contexts: Sequence[Sequence[float]] = ()) -> Iterator[Judged]:
    """Every effect of an A/B test, every arm of a bandit. ``contexts`` are those of all draws, where there are any.

    A number that is missing raises ``TypeError``: in the demo none may be.
    """
    if "metric_analyses" in data:
        known = truth.PRICES if kind is ExperimentType.FREQ_PREASSIGNED else truth.SIGN_UP
        yield from _effects(known, data)
    else:
        yield from _arms(kind, data, contexts)


def _effects(known: Sequence[truth.Metric], data: Mapping[str, Any]) -> Iterator[Judged]:
    for metric, analysis in zip(known, data["metric_analyses"], strict=True):
        baseline = metric.means[0]
        for mean, arm in zip(metric.means, analysis["arm_analyses"], strict=True):
            if not arm["is_baseline"]:
                yield Judged(
                    what=f"{analysis['metric_name']}, {arm['arm_name']}",
                    estimate=float(arm["estimate"]),
                    low=float(arm["ci_lower"]),
                    high=float(arm["ci_upper"]),
                    truth=mean - baseline,
                )


def _arms(kind: ExperimentType, data: Mapping[str, Any], contexts: Sequence[Sequence[float]]) -> Iterator[Judged]:
    for arm in data["arm_analyses"]:
        yield Judged(
            what=arm["arm_name"],
            estimate=float(arm["post_pred_mean"]),
            low=float(arm["post_pred_ci_lower"]),
            high=float(arm["post_pred_ci_upper"]),
            truth=_mean(kind, arm["arm_name"], contexts),
        )


def _mean(kind: ExperimentType, arm: str, contexts: Sequence[Sequence[float]]) -> float:
    if kind is ExperimentType.MAB_ONLINE:
        return truth.BUTTON_RATES[arm]
    if kind is ExperimentType.MAB_ONLINE_DWH:
        return truth.BANNER_MEANS[arm]
    return fmean(truth.chance_of_purchase(arm, context) for context in contexts)
