"""The analysis of one metric of an A/B experiment, from per-arm and per-cluster sums only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.stats import confidence_sequence as sequences
from experiments.stats.clusters import ClusterCells
from experiments.stats.errors_of_means import ClusteredErrors, ErrorsOfMeans, IndependentErrors
from experiments.stats.lift import BEYOND_DOUBLES, no_lift, obstacle, relative_lift
from experiments.stats.missingness import differential_missingness, no_test
from experiments.stats.power import minimum_detectable_effect
from experiments.stats.reference import finite, robust_estimate, t_test
from experiments.stats.results import (
    ArmResult,
    ConfidenceSequence,
    Effect,
    HypothesisTest,
    Lift,
    MetricResult,
    Missingness,
    RobustEstimate,
    Status,
)
from experiments.stats.sufficient import Moments, difference

_NO_VARIANCE = "the standard error is exactly 0, so there is nothing to test against"


@dataclass(frozen=True, kw_only=True)
class ArmSums:
    """What is known of one arm of one metric. ``arm`` is its number, the same as in the cluster cells.

    ``moments`` are of the finite outcomes that count. Raises ``ValueError`` unless everybody assigned is counted once.
    """

    arm: int
    n_assigned: int
    moments: Moments
    n_not_in_warehouse: int = 0
    n_null: int = 0
    n_non_finite: int = 0
    n_duplicate: int = 0

    def __post_init__(self) -> None:
        missing = (self.n_not_in_warehouse, self.n_null, self.n_non_finite, self.n_duplicate)
        if min(missing) < 0 or self.moments.n + sum(missing) != self.n_assigned:
            raise ValueError(
                f"arm {self.arm}: n_assigned is {self.n_assigned}, but {self.moments.n} outcomes, {missing[0]} not in "
                f"the warehouse, {missing[1]} null, {missing[2]} non-finite and {missing[3]} duplicate do not add up"
            )

    @property
    def n_missing(self) -> int:
        return self.n_assigned - self.moments.n


def analyze_metric(
    *,
    arms: Sequence[ArmSums],
    baseline: int,
    alpha: float,
    power: float = 0.8,
    clusters: ClusterCells | None = None,
    sequence_tuned_at: int = sequences.TUNED_AT,
) -> MetricResult:
    """Every arm's mean, and its difference from the baseline's, with errors, tests and a status.

    Intervals have level 1 - ``alpha``; ``power`` is for the minimum detectable effect. ``clusters`` makes the analysis
    cluster-robust and must hold the same outcomes as ``arms``. ``sequence_tuned_at`` is the number of outcomes at
    which the confidence sequence is to be narrow; it must not change between looks.

    Raises ``ValueError`` naming the argument that makes no sense. What cannot be estimated is a status, not an error.
    """
    _check(arms=arms, baseline=baseline, alpha=alpha, power=power, tuned_at=sequence_tuned_at)
    samples = {sums.arm: sums.moments for sums in arms if sums.moments.n > 0}
    errors: ErrorsOfMeans = (
        IndependentErrors(samples) if clusters is None else ClusteredErrors(samples, clusters, baseline=baseline)
    )
    analysis = _Analysis(
        samples=samples, errors=errors, baseline=baseline, alpha=alpha, power=power, tuned_at=sequence_tuned_at
    )
    with np.errstate(over="ignore", invalid="ignore"):
        # Infinity and NaN from outcomes near the end of the range become None, with a reason, one step later.
        results = tuple(analysis.arm(sums) for sums in arms)
    return MetricResult(
        baseline=baseline,
        alpha=alpha,
        power=power,
        n_assigned=sum(sums.n_assigned for sums in arms),
        n_not_in_warehouse=sum(sums.n_not_in_warehouse for sums in arms),
        n_used=sum(sample.n for sample in samples.values()),
        n_arms_used=len(samples),
        n_clusters=errors.n_clusters,
        df_t=errors.df_t,
        arms=results,
        missingness=_missingness(arms, baseline, clustered=clusters is not None),
    )


@dataclass(frozen=True, kw_only=True)
class _Analysis:
    samples: dict[int, Moments]
    errors: ErrorsOfMeans
    baseline: int
    alpha: float
    power: float
    tuned_at: int

    def arm(self, sums: ArmSums) -> ArmResult:
        sample = sums.moments
        status, reason, effect = self._judge(sums.arm)
        return ArmResult(
            arm=sums.arm,
            is_baseline=sums.arm == self.baseline,
            status=status,
            reason=reason,
            n_assigned=sums.n_assigned,
            n_used=sample.n,
            n_missing=sums.n_missing,
            n_not_in_warehouse=sums.n_not_in_warehouse,
            n_null=sums.n_null,
            n_non_finite=sums.n_non_finite,
            n_duplicate=sums.n_duplicate,
            n_clusters=self.errors.n_clusters_of(sums.arm),
            mean=sample.mean,
            sd=sample.sd,
            sum=sample.sum,
            centred_ss=sample.centred_ss if sample.n and not sample.overflowed else None,
            arm_mean=self._mean(sums.arm),
            effect=effect,
        )

    def _mean(self, arm: int) -> RobustEstimate | None:
        if arm not in self.samples:
            return None
        variance = None if self.errors.obstacle(arm) else self.errors.robust_of_mean(arm)
        return self._robust(self.samples[arm].mean, variance)

    def _judge(self, arm: int) -> tuple[Status, str | None, Effect | None]:
        if arm not in self.samples:
            return Status.NO_DATA, "no participant of this arm has a usable outcome", None
        obstacle = self.errors.obstacle(arm)
        if arm == self.baseline:
            return (
                (Status.ERROR_NOT_ESTIMABLE, f"this arm {obstacle}", None)
                if obstacle
                else (Status.BASELINE, None, None)
            )
        if self.baseline not in self.samples:
            return Status.NO_BASELINE_DATA, "no participant of the baseline has a usable outcome", None
        if obstacle:
            return self._not_estimable(arm, f"this arm {obstacle}")
        if obstacle := self.errors.obstacle(self.baseline):
            return self._not_estimable(arm, f"the baseline {obstacle}")
        return self._compare(arm)

    def _compare(self, arm: int) -> tuple[Status, str | None, Effect]:
        estimate = self._estimate(arm)
        if estimate is None:
            return self._not_estimable(arm, "the difference is beyond the range of doubles")
        variance, df = self.errors.headline(arm, self.baseline)
        robust_variance = self.errors.robust_of_difference(arm, self.baseline)
        lift = self._lift(arm, estimate)
        if variance == 0 or robust_variance == 0:
            effect = Effect(
                estimate=estimate,
                headline=None,
                cr2=None,
                robust=self._robust(estimate, 0.0),
                lift=lift,
                minimum_detectable_effect=None,
                confidence_sequence=sequences.none(self.tuned_at, _NO_VARIANCE),
            )
            return Status.ZERO_VARIANCE, _NO_VARIANCE, effect
        effect = Effect(
            estimate=estimate,
            headline=t_test(self.errors.method, estimate, variance, df=df, alpha=self.alpha),
            cr2=self._cr2(arm, estimate),
            robust=self._robust(estimate, robust_variance),
            lift=lift,
            minimum_detectable_effect=minimum_detectable_effect(
                std_error=math.sqrt(variance), df=df, alpha=self.alpha, power=self.power
            ),
            confidence_sequence=self._sequence(arm, estimate),
        )
        return Status.OK, None, effect

    def _not_estimable(self, arm: int, reason: str) -> tuple[Status, str, Effect]:
        estimate = self._estimate(arm)
        effect = Effect(
            estimate=estimate,
            headline=None,
            cr2=None,
            robust=self._robust(estimate, None),
            lift=no_lift(reason),
            minimum_detectable_effect=None,
            confidence_sequence=sequences.none(self.tuned_at, reason),
        )
        return Status.ERROR_NOT_ESTIMABLE, reason, effect

    def _estimate(self, arm: int) -> float | None:
        a, b = self.samples[arm], self.samples[self.baseline]
        return None if a.mean is None or b.mean is None else finite(difference(a, b))

    def _robust(self, estimate: float | None, variance: float | None) -> RobustEstimate:
        return robust_estimate(estimate, variance, df=self.errors.df_t, alpha=self.alpha)

    def _cr2(self, arm: int, estimate: float) -> HypothesisTest:
        variance, df = self.errors.cr2(arm, self.baseline)
        return t_test("cr2", estimate, variance, df=df, alpha=self.alpha)

    def _lift(self, arm: int, effect: float) -> Lift:
        mean, baseline_mean = self.samples[arm].mean, self.samples[self.baseline].mean
        if mean is None or baseline_mean is None:
            return no_lift(BEYOND_DOUBLES)
        reason = obstacle(baseline_mean=baseline_mean, baseline_variance=self.errors.headline_of_mean(self.baseline))
        if reason:
            return no_lift(reason)
        variance, df = self.errors.headline(arm, self.baseline, weight=mean / baseline_mean)
        return relative_lift(effect=effect, baseline_mean=baseline_mean, variance=variance, df=df, alpha=self.alpha)

    def _sequence(self, arm: int, estimate: float) -> ConfidenceSequence:
        if self.errors.n_clusters is not None:
            return sequences.none(self.tuned_at, sequences.NOT_FOR_CLUSTERS)
        a, b = self.samples[arm], self.samples[self.baseline]
        return sequences.confidence_sequence(a, b, estimate=estimate, alpha=self.alpha, tuned_at=self.tuned_at)


def _missingness(arms: Sequence[ArmSums], baseline: int, *, clustered: bool) -> Missingness:
    if clustered:
        return no_test("participants of one cluster may go missing together, so their counts cannot be tested")
    return differential_missingness(
        observed=[sums.moments.n for sums in arms],
        missing=[sums.n_missing for sums in arms],
        baseline=[sums.arm for sums in arms].index(baseline),
    )


def _check(*, arms: Sequence[ArmSums], baseline: int, alpha: float, power: float, tuned_at: int) -> None:
    numbers = [sums.arm for sums in arms]
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"arms: each may be given once, not {numbers}")
    if baseline not in numbers:
        raise ValueError(f"baseline: arm {baseline} is not among the arms {numbers}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: must lie between 0 and 1, not {alpha}")
    if not 0 < power < 1:
        raise ValueError(f"power: must lie between 0 and 1, not {power}")
    if tuned_at < 1:
        raise ValueError(f"sequence_tuned_at: must be a number of outcomes, at least 1, not {tuned_at}")
