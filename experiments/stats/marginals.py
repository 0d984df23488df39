"""The distribution of each arm's mean outcome at one context, as a comparison of arms needs it: on an axis where it is
smooth, which is the mean itself or its log-odds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import betainc, betaincc, betaln, expit, log_ndtr, stdtr

type Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

_FEW_SPREADS = (0.7, 2.0, 4.5, 9.0, 39.0)
_HEAVY_TAILS = tuple(39.0 * 5.0**k for k in range(1, 20))
_NEARLY_NORMAL = 1e8  # degrees of freedom
_RESOLUTION = 1e-13
_SQUARE_IN_RANGE = 1e150
_EXP_IN_RANGE = 700.0
_TINY = 2.0**-53
_FAR_LOG_ODDS = 100.0  # beyond, p or 1 - p is so small that the first term of its series is all there is


class Marginals(Protocol):
    """Of several independent arms. Arrays are (arms, points)."""

    def breakpoints(self) -> Array:
        """Sorted points between which the functions are smooth; the mass beyond the ends is below 1e-16."""

    def log_cdf(self, points: Array) -> Array: ...

    def density(self, points: Array) -> Array:
        """Up to a constant factor for each arm."""

    def slope(self, points: Array) -> Array:
        """Derivative of the mean outcome along the axis, in units of ``unit``."""

    @property
    def unit(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class LocationScale:
    """Normal or, with finite degrees of freedom, Student's t; with ``logit`` they are distributions of log-odds."""

    centres: Array
    spreads: Array  # positive
    dfs: Array  # infinite: normal
    logit: bool

    @property
    def unit(self) -> float:
        return 1.0 if self.logit else float(np.max(self.spreads))

    @property
    def _origin(self) -> float:
        # Far from zero, differences from the largest mean keep the digits that points on the axis would lose.
        return 0.0 if self.logit else float(np.max(self.centres))

    @property
    def _visible_spreads(self) -> Array:
        # Not below what neighbouring points on the axis can tell apart: as good as certain.
        return np.maximum(self.spreads, _RESOLUTION * np.abs(self.centres - self._origin))

    def breakpoints(self) -> Array:
        steps = np.array(_FEW_SPREADS + (_HEAVY_TAILS if np.min(self.dfs) < _NEARLY_NORMAL else ()))
        steps = np.concatenate([-steps, [0.0], steps])
        spreads = self._visible_spreads
        points = ((self.centres - self._origin)[:, None] + spreads[:, None] * steps) / self.unit
        around_even_odds = np.array([-40.0, -8.0, -2.0, 0.0, 2.0, 8.0, 40.0]) if self.logit else np.empty(0)
        narrowest = min(float(np.min(spreads)) / self.unit, 1.0)
        return _thinned(np.concatenate([points.ravel(), around_even_odds]), narrowest)

    def log_cdf(self, points: Array) -> Array:
        z = self._standardised(points)
        result = np.asarray(log_ndtr(z))
        for arm in np.flatnonzero(self.dfs < _NEARLY_NORMAL):
            result[arm] = _log_of(stdtr(self.dfs[arm], z[arm]), stdtr(self.dfs[arm], -z[arm]))
        return result

    def density(self, points: Array) -> Array:
        z = self._standardised(points)
        dfs = np.minimum(self.dfs, _NEARLY_NORMAL)[:, None]
        squares = np.minimum(np.abs(z), _SQUARE_IN_RANGE) ** 2
        heavy = -(dfs + 1) / 2 * np.log1p(squares / dfs)
        result: Array = np.exp(np.where(self.dfs[:, None] < _NEARLY_NORMAL, heavy, -squares / 2))
        return result

    def slope(self, points: Array) -> Array:
        return np.asarray(expit(points) * expit(-points)) if self.logit else np.ones_like(points)

    def _standardised(self, points: Array) -> Array:
        z: Array = (points * self.unit - (self.centres - self._origin)[:, None]) / self._visible_spreads[:, None]
        return z


@dataclass(frozen=True, kw_only=True)
class Betas:
    """On the axis of log-odds, where a Beta density has no infinite ends however small its parameters are."""

    alphas: Array
    betas: Array

    @property
    def unit(self) -> float:
        return 1.0

    def breakpoints(self) -> Array:
        centres = np.log(self.alphas) - np.log(self.betas)
        spreads = np.sqrt(1 / self.alphas + 1 / self.betas)
        points = [centres]
        for tail, sign in ((self.alphas, -1.0), (self.betas, 1.0)):
            # Tails fall like exp(-tail |log-odds|) beyond what looks normal.
            reach = 40 / tail + 10 * spreads + 2.0
            near = np.minimum(spreads[:, None] * np.array(_FEW_SPREADS[:-1]), reach[:, None])
            points += [(centres[:, None] + sign * near).ravel(), centres + sign * reach]
        return _thinned(np.concatenate([*points, np.array([-2.0, 0.0, 2.0])]), min(float(np.min(spreads)), 1.0))

    def log_cdf(self, points: Array) -> Array:
        with np.errstate(under="ignore"):
            return np.stack([self._one_log_cdf(a, b, points) for a, b in zip(self.alphas, self.betas, strict=True)])

    def density(self, points: Array) -> Array:
        """Relative to that at log(alpha / beta), in a form that keeps its digits for millions of outcomes."""
        alphas, betas = self.alphas[:, None], self.betas[:, None]
        distance = points - (np.log(alphas) - np.log(betas))
        # Seen from the side of the smaller parameter: exp(small d) / (1 + share (exp(d) - 1))^(alpha + beta).
        mirrored = alphas > betas
        small, distance = np.minimum(alphas, betas), np.where(mirrored, -distance, distance)
        share = small / (alphas + betas)
        growth = np.where(
            distance < _EXP_IN_RANGE,
            np.log1p(share * np.expm1(np.minimum(distance, _EXP_IN_RANGE))),
            np.log(share) + distance,
        )
        result: Array = np.exp(np.minimum(small * distance - (alphas + betas) * growth, 0.0))
        return result

    def slope(self, points: Array) -> Array:
        return np.asarray(expit(points) * expit(-points))

    @staticmethod
    def _one_log_cdf(alpha: float, beta: float, points: Array) -> Array:
        # From whichever of p and 1 - p is small: the other one has lost the digits that tell it from 1.
        rare = expit(-np.abs(points))
        left = points < 0
        below, above = np.empty_like(points), np.empty_like(points)
        below[left], above[left] = betainc(alpha, beta, rare[left]), betaincc(alpha, beta, rare[left])
        below[~left], above[~left] = betaincc(beta, alpha, rare[~left]), betainc(beta, alpha, rare[~left])
        result = _log_of(below, above)
        constant = float(betaln(alpha, beta))
        low, high = points < -_FAR_LOG_ODDS, points > _FAR_LOG_ODDS
        result[low] = np.minimum(alpha * points[low] - np.log(alpha) - constant, 0.0)
        result[high] = np.log1p(-np.exp(np.minimum(-beta * points[high] - np.log(beta) - constant, -_TINY)))
        return result


def _log_of(below: Array, above: Array) -> Array:
    """log of ``below`` = 1 - ``above``, from whichever is the smaller."""
    with np.errstate(divide="ignore"):
        return np.where(above < 0.5, np.log1p(-np.minimum(above, 0.5)), np.log(below))


def _thinned(points: Array, narrowest: float) -> Array:
    """Sorted, without those that nearly repeat another: the panels between are halved where that is needed."""
    ordered = np.unique(points)
    gap = 0.2 * narrowest
    kept = [0]
    for index in range(1, len(ordered) - 1):
        if ordered[index] - ordered[kept[-1]] >= gap:
            kept.append(index)
    return ordered[[*kept, len(ordered) - 1]]
