"""How much one outcome scatters around its mean: given with the experiment, or estimated within arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from experiments.stats.exact import square_root
from experiments.stats.gaussian_sums import GaussianSums

# A Student t distribution with fewer has no mean or hardly one, so that nothing could be said of an expected loss.
FEWEST_DEGREES_OF_FREEDOM = 2


class NoiseSource(StrEnum):
    GIVEN = "given"  # the experiment's noise_sd
    ESTIMATED = "estimated"  # from the outcomes, within arms
    NOT_ESTIMABLE = "not_estimable"  # not given, and too few outcomes yet
    BINARY = "binary"  # outcomes are 0 or 1: their scatter follows from their mean


@dataclass(frozen=True, kw_only=True)
class Noise:
    """``sd`` in outcome units and the degrees of freedom of its estimate (``None``: known), or the reason for none."""

    sd: float | None
    source: NoiseSource
    df: int | None = None
    reason: str | None = None

    @classmethod
    def given(cls, sd: float) -> Noise:
        """Raises ``ValueError`` unless positive and finite."""
        if not (math.isfinite(sd) and sd > 0):
            raise ValueError(f"noise_sd must be a positive finite number, not {sd}")
        return cls(sd=sd, source=NoiseSource.GIVEN)


def noise_of(noise_sd: float | None, sums_by_arm: Sequence[GaussianSums]) -> Noise:
    """The given standard deviation, and without one the estimate from all arms' outcomes."""
    return estimate_noise(sums_by_arm) if noise_sd is None else Noise.given(noise_sd)


def estimate_noise(sums_by_arm: Sequence[GaussianSums]) -> Noise:
    """Pooled over the arms' own least squares fits (without contexts: around each arm's mean), never around a common
    mean, which would take the arms' differences for noise."""
    residuals = [sums.residual() for sums in sums_by_arm]
    df = sum(sums.n - rank for sums, (_, rank) in zip(sums_by_arm, residuals, strict=True))
    if df < FEWEST_DEGREES_OF_FREEDOM:
        return _none(
            f"noise_sd is not given, and the outcomes leave {df} degrees of freedom within arms to estimate it; "
            f"{FEWEST_DEGREES_OF_FREEDOM} are needed"
        )
    variance = sum((ss for ss, _ in residuals), Fraction(0)) / df
    if variance == 0:
        return _none("noise_sd is not given, and the outcomes within each arm do not vary, so it cannot be estimated")
    try:
        sd = square_root(variance)
    except OverflowError:
        return _none("noise_sd is not given, and the outcomes' spread lies beyond the range of double precision")
    if sd == 0:
        return _none("noise_sd is not given, and the outcomes' spread lies below the range of double precision")
    return Noise(sd=sd, source=NoiseSource.ESTIMATED, df=df)


def _none(reason: str) -> Noise:
    return Noise(sd=None, source=NoiseSource.NOT_ESTIMABLE, reason=reason)
