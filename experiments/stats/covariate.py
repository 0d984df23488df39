"""Regression adjustment by a covariate measured before the experiment: the same effect with a smaller error. From
per-arm sums of products, not rows; HC1 errors, the covariate's overall mean taken as fixed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.stats.cross_moments import CrossMoments
from experiments.stats.reference import finite, interval, t_p_value, t_quantile
from experiments.stats.results import Interval

_ROUNDING = 2.0**-48


@dataclass(frozen=True, kw_only=True)
class AdjustedEffect:
    """An arm's effect by one of the models; Student's t with ``df`` = participants - coefficients."""

    estimate: float | None
    std_error: float | None
    df: int | None
    statistic: float | None
    p_value: float | None
    ci: Interval | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Adjustment:
    """Effects by arm but the baseline. ``common_slope``: the outcome on arm dummies and the covariate.
    ``slope_per_arm``: each arm has its own slope and effects are at the covariate's overall mean (Lin 2013); it is
    never less precise in large samples, so decide by it. ``pooled_slope`` is that of the common model."""

    unadjusted: Mapping[str, AdjustedEffect]
    common_slope: Mapping[str, AdjustedEffect]
    slope_per_arm: Mapping[str, AdjustedEffect]
    pooled_slope: float | None


@dataclass(frozen=True, kw_only=True)
class _Part:
    """An arm's part in an estimate, which is a weighted sum of outcomes: the participant at x has the weight
    ``constant`` + ``per_x`` (x - the arm's mean), and residuals are taken from a line of this ``slope``."""

    constant: float
    per_x: float
    slope: float


def adjust(arms: Mapping[str, CrossMoments], *, baseline: str, alpha: float) -> Adjustment:
    """``x`` of the pairs is the covariate, ``y`` the outcome. Raises ``KeyError`` without a baseline of that name."""
    spread = math.fsum(arm.product(2, 0) for arm in arms.values())
    pooled = math.fsum(arm.product(1, 1) for arm in arms.values()) / spread if spread > 0 else None
    whole = _Experiment(arms=arms, baseline=baseline, alpha=alpha, spread=spread, pooled_slope=pooled)
    others = [name for name in arms if name != baseline]
    return Adjustment(
        unadjusted={name: whole.unadjusted(name) for name in others},
        common_slope={name: whole.common_slope(name) for name in others},
        slope_per_arm={name: whole.slope_per_arm(name) for name in others},
        pooled_slope=pooled,
    )


@dataclass(frozen=True, kw_only=True)
class _Experiment:
    arms: Mapping[str, CrossMoments]
    baseline: str
    alpha: float
    spread: float
    pooled_slope: float | None

    def unadjusted(self, name: str) -> AdjustedEffect:
        return self._effect(name, self._parts(name, slope=0.0, per_x=0.0), coefficients=len(self.arms))

    def common_slope(self, name: str) -> AdjustedEffect:
        if self.pooled_slope is None:
            return _none("the covariate does not vary within the arms")
        per_x = -(self.arms[name].mean_x - self.arms[self.baseline].mean_x) / self.spread
        parts = self._parts(name, slope=self.pooled_slope, per_x=per_x)
        return self._effect(name, parts, coefficients=len(self.arms) + 1)

    def slope_per_arm(self, name: str) -> AdjustedEffect:
        for arm in (name, self.baseline):
            if self.arms[arm].n < 3 or self.arms[arm].product(2, 0) == 0:
                return _none(f"arm {arm!r} needs three participants and a covariate that varies")
        n = sum(arm.n for arm in self.arms.values())
        overall = math.fsum(arm.n * arm.mean_x for arm in self.arms.values()) / n
        parts = {}
        for arm, sign in ((name, 1.0), (self.baseline, -1.0)):
            sums = self.arms[arm]
            parts[arm] = _Part(
                constant=sign / sums.n,
                per_x=sign * (overall - sums.mean_x) / sums.product(2, 0),
                slope=sums.product(1, 1) / sums.product(2, 0),
            )
        slopes = sum(1 for arm in self.arms.values() if arm.product(2, 0) > 0)
        return self._effect(name, parts, coefficients=len(self.arms) + slopes)

    def _parts(self, name: str, *, slope: float, per_x: float) -> dict[str, _Part]:
        """Of a model with one slope, in which every arm's outcomes take part."""
        constant = {name: 1 / self.arms[name].n, self.baseline: -1 / self.arms[self.baseline].n}
        return {arm: _Part(constant=constant.get(arm, 0.0), per_x=per_x, slope=slope) for arm in self.arms}

    def _effect(self, name: str, parts: Mapping[str, _Part], *, coefficients: int) -> AdjustedEffect:
        n = sum(arm.n for arm in self.arms.values())
        df = n - coefficients
        if df < 1 or min(self.arms[name].n, self.arms[self.baseline].n) < 2:
            return _none("there are too few participants to estimate an error")
        means = self.arms[name].mean_y - self.arms[self.baseline].mean_y
        estimate = finite(means + math.fsum(part.per_x * self.arms[arm].product(1, 1) for arm, part in parts.items()))
        variance = math.fsum(_squares(self.arms[arm], part) for arm, part in parts.items()) * n / df
        if estimate is None or finite(variance) is None:
            return _none("the outcomes are too large for double arithmetic")
        std_error = math.sqrt(max(variance, 0.0))
        statistic = finite(estimate / std_error) if std_error > 0 else None
        return AdjustedEffect(
            estimate=estimate,
            std_error=std_error,
            df=df,
            statistic=statistic,
            p_value=None if statistic is None else t_p_value(statistic, df),
            ci=interval(estimate, std_error, t_quantile(self.alpha, df)),
            reason=None if statistic is not None else "the standard error is exactly 0",
        )


def _squares(sums: CrossMoments, part: _Part) -> float:
    """Sum of squared weight times squared residual, (c + g u)^2 (v - b u)^2 for the deviations u and v, multiplied
    out."""
    b, c, g = part.slope, part.constant, part.per_x

    def terms(power: int) -> tuple[float, float, float]:
        return sums.product(power, 2), -2 * b * sums.product(power + 1, 1), b * b * sums.product(power + 2, 0)

    if math.fsum(terms(0)) <= _ROUNDING * sum(map(abs, terms(0))):
        return 0.0  # every outcome lies on the line
    return c * c * math.fsum(terms(0)) + 2 * c * g * math.fsum(terms(1)) + g * g * math.fsum(terms(2))


def _none(reason: str) -> AdjustedEffect:
    return AdjustedEffect(estimate=None, std_error=None, df=None, statistic=None, p_value=None, ci=None, reason=reason)
