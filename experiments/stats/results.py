"""What an analysis says. Every value is a float, an integer, text or ``None``; ``None`` means "cannot be computed",
and a status or a reason beside it says why. Never NaN or infinity, so ``dataclasses.asdict`` of a result is JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

type Interval = tuple[float, float]


class Status(StrEnum):
    """How far the analysis of one arm and metric went."""

    OK = "ok"
    BASELINE = "baseline"
    NO_DATA = "no_data"
    NO_BASELINE_DATA = "no_baseline_data"
    ERROR_NOT_ESTIMABLE = "error_not_estimable"
    ZERO_VARIANCE = "zero_variance"


@dataclass(frozen=True, kw_only=True)
class RobustEstimate:
    """An estimate with its HC1 (clustered: CR1) standard error, judged by the normal and by Student's t distribution
    with the metric's ``df_t`` degrees of freedom."""

    estimate: float | None
    std_error: float | None
    statistic: float | None
    p_value_normal: float | None
    p_value_t: float | None
    ci_normal: Interval | None
    ci_t: Interval | None


@dataclass(frozen=True, kw_only=True)
class HypothesisTest:
    """A two-sided test of "no effect" by Student's t with ``df`` degrees of freedom, and the interval that goes with
    it."""

    method: str
    std_error: float
    df: float
    statistic: float | None
    p_value: float | None
    ci: Interval | None


@dataclass(frozen=True, kw_only=True)
class Lift:
    """The effect as a fraction of the baseline's mean (0.1 is 10 % more); ``reason`` says why there is none."""

    estimate: float | None
    std_error: float | None
    df: float | None
    ci: Interval | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class ConfidenceSequence:
    """An interval for the effect that holds at all looks together; ``reason`` says why there is none."""

    ci: Interval | None
    tuned_at: int
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Arm mean minus baseline mean, in the metric's unit. ``headline`` is the test to decide by: Welch's, or CR2 with
    Satterthwaite's degrees of freedom when clustered. ``p_value_holm`` is adjusted over the arms of this metric,
    ``p_value_holm_all`` over all arms and metrics; both are set by ``multiplicity.with_holm``."""

    estimate: float | None
    headline: HypothesisTest | None
    cr2: HypothesisTest | None
    robust: RobustEstimate
    lift: Lift
    minimum_detectable_effect: float | None
    confidence_sequence: ConfidenceSequence
    p_value_holm: float | None = None
    p_value_holm_all: float | None = None


@dataclass(frozen=True, kw_only=True)
class ArmResult:
    """One arm of one metric. ``n_missing`` counts everybody assigned without a usable outcome, for whatever reason."""

    arm: int
    is_baseline: bool
    status: Status
    reason: str | None
    n_assigned: int
    n_used: int
    n_missing: int
    n_not_in_warehouse: int
    n_null: int
    n_non_finite: int
    n_duplicate: int
    n_clusters: int | None
    mean: float | None
    sd: float | None
    sum: float | None
    centred_ss: float | None
    arm_mean: RobustEstimate | None
    effect: Effect | None


@dataclass(frozen=True, kw_only=True)
class Missingness:
    """Whether outcomes are missing more often in some arms than in others; ``reason`` says why there is no test."""

    method: str | None
    statistic: float | None
    df: int | None
    p_value: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class MetricResult:
    """One metric over all arms, in the order given. ``df_t`` belongs to the robust estimates;
    without any outcome it is ``None``."""

    baseline: int
    alpha: float
    power: float
    n_assigned: int
    n_not_in_warehouse: int
    n_used: int
    n_arms_used: int
    n_clusters: int | None
    df_t: int | None
    arms: tuple[ArmResult, ...]
    missingness: Missingness
