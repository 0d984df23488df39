"""What a mean and its error need of a sample: count, mean, centred sum of squares. Means are kept as an exact origin
plus a small offset, so that differences keep their digits when values lie near 1e12 or are integers beyond 2**53."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

type Number = int | float | Decimal | Fraction

_EPSILON = 2.0**-52
_LARGEST = 2.0**960  # of a centred sum of squares: what is made of it later stays within the range of doubles


@dataclass(frozen=True, kw_only=True)
class Moments:
    """``n`` values whose mean is ``origin + offset`` and whose squared deviations from it add up to ``centred_ss``.

    ``origin`` is exact; ``offset`` is small beside the values' spread when they were centred near their mean. Sums
    beyond the range of doubles are infinite in ``offset`` or ``centred_ss``: see ``overflowed``.
    """

    n: int
    origin: Fraction
    offset: float
    centred_ss: float

    @classmethod
    def empty(cls) -> Moments:
        return cls(n=0, origin=Fraction(0), offset=0.0, centred_ss=0.0)

    @classmethod
    def of(cls, values: Iterable[Number]) -> Moments:
        """Of values in memory, in two passes. Integers, decimals and fractions are subtracted exactly, booleans count
        as 0/1.

        Raises ``ValueError`` for NaN and infinity: what a missing outcome is, the caller decides.
        """
        listed: Sequence[Number] = list(values)
        if not listed:
            return cls.empty()
        if not all(math.isfinite(value) for value in listed):
            raise ValueError("values must be finite; leave NaN and infinity out and count them as missing")
        if all(isinstance(value, float) for value in listed):
            return _of_floats(np.array(listed, dtype=np.float64))
        exact = [Fraction(value) for value in listed]
        centre = sum(exact, Fraction(0)) / len(exact)
        deviations = [_as_float(value - centre) for value in exact]
        return cls(
            n=len(exact),
            origin=centre,
            offset=0.0,
            centred_ss=math.fsum(_square(deviation) for deviation in deviations),
        )

    @classmethod
    def from_centred(
        cls, *, n: int, centre: int | float | Decimal | None, sum_dev: float, sum_sq_dev: float
    ) -> Moments:
        """From sums of ``value - centre`` and of its square, where ``centre`` is exact and near the mean: thousands of
        standard deviations away from it the sums have lost the spread, and it is taken for 0.

        Raises ``ValueError`` for a negative count, or values without a finite centre.
        """
        if n < 0:
            raise ValueError(f"n must not be negative: {n}")
        if n == 0:
            return cls.empty()
        if centre is None or not math.isfinite(centre):
            raise ValueError(f"centre must be a finite number where n is {n}, not {centre}")
        if not (math.isfinite(sum_dev) and math.isfinite(sum_sq_dev)):
            return cls(n=n, origin=Fraction(centre), offset=math.inf, centred_ss=math.inf)
        offset = sum_dev / n
        centred_ss = sum_sq_dev - sum_dev * offset
        # Equal values whose centre was rounded differ from it by one and the same number. What the subtraction leaves
        # of them is the rounding of two sums of n terms; a real spread that small would be millionths of an ulp.
        noise = 4 * n * _EPSILON * sum_sq_dev
        return cls(
            n=n, origin=Fraction(centre), offset=offset, centred_ss=centred_ss if n > 1 and centred_ss > noise else 0.0
        )

    @property
    def overflowed(self) -> bool:
        """Whether the values are too large (1e144 and more) for errors to be computed in double arithmetic."""
        return not (math.isfinite(self.offset) and self.centred_ss <= _LARGEST)

    @property
    def mean(self) -> float | None:
        """The double nearest to the mean; ``None`` without values, or beyond the range of doubles."""
        return None if self.n == 0 or not math.isfinite(self.offset) else _finite(self._exact_mean)

    @property
    def sum(self) -> float | None:
        return None if self.n == 0 or not math.isfinite(self.offset) else _finite(self.n * self._exact_mean)

    @property
    def variance(self) -> float | None:
        """With n - 1; ``None`` for fewer than two values or beyond the range of doubles."""
        return None if self.n < 2 or self.overflowed else self.centred_ss / (self.n - 1)

    @property
    def sd(self) -> float | None:
        return None if self.variance is None else math.sqrt(self.variance)

    def merge(self, other: Moments) -> Moments:
        """Both samples together, by the pairwise update of Chan, Golub and LeVeque (1983)."""
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        large, small = (self, other) if self.n >= other.n else (other, self)
        n = self.n + other.n
        if not (math.isfinite(self.offset) and math.isfinite(other.offset)):
            return Moments(n=n, origin=large.origin, offset=math.inf, centred_ss=math.inf)
        delta = difference(small, large)
        if abs(delta) <= 4 * _EPSILON * max(abs(large.offset), abs(small.offset)):
            delta = 0.0  # equal means of which one was rounded
        return Moments(
            n=n,
            origin=large.origin,
            offset=large.offset + delta * (small.n / n),
            centred_ss=large.centred_ss + small.centred_ss + _square(delta) * (large.n * small.n / n),
        )

    @property
    def _exact_mean(self) -> Fraction:
        return self.origin + Fraction(self.offset)


def difference(a: Moments, b: Moments) -> float:
    """Mean of ``a`` minus mean of ``b``, rounded once. Both must have values and finite means; infinite when it
    overflows."""
    return _as_float(a._exact_mean - b._exact_mean)


def _of_floats(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Moments:
    with np.errstate(over="ignore", invalid="ignore"):
        centre = float(np.mean(values))
        if not math.isfinite(centre):
            return Moments(n=len(values), origin=Fraction(0), offset=math.inf, centred_ss=math.inf)
        deviations = values - centre
        return Moments.from_centred(
            n=len(values),
            centre=centre,
            sum_dev=float(np.sum(deviations)),
            sum_sq_dev=float(np.sum(deviations * deviations)),
        )


def _as_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _finite(value: Fraction) -> float | None:
    number = _as_float(value)
    return number if math.isfinite(number) else None


def _square(value: float) -> float:
    return value * value  # not value**2, which raises OverflowError
