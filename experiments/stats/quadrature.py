"""Integrals to about ten digits, the same bits each time: Gauss-Legendre rules on panels, halved where
that is needed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.legendre import leggauss

type Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

_NODES, _WEIGHTS = leggauss(21)
_CHECK_NODES, _CHECK_WEIGHTS = leggauss(14)
_RELATIVE = 1e-9  # what the two rules may differ by, of the whole integral; the finer one is far better than that
_ROUNDING = 1e-12  # of the panel's own value: no halving gains more
_NARROWEST = 1e-10  # of a panel's distance from zero: within, the rounding of the points themselves is seen
_MOST_HALVINGS = 50


def integrate(integrands: Callable[[Array], Array], breakpoints: Array) -> Array:
    """Of several functions at once, from the first to the last breakpoint (sorted, distinct). ``integrands`` takes a
    vector of n points and returns an array of (functions, n)."""
    low, high = breakpoints[:-1], breakpoints[1:]
    total: Array | None = None
    for _ in range(_MOST_HALVINGS):
        fine = _panels(integrands, low, high, _NODES, _WEIGHTS)
        error = np.abs(fine - _panels(integrands, low, high, _CHECK_NODES, _CHECK_WEIGHTS))
        everything = np.sum(fine, axis=1) + (0.0 if total is None else total)
        allowed = _RELATIVE * np.abs(everything)[:, None] + _ROUNDING * np.abs(fine)
        middle = low + (high - low) / 2
        wide = high - low > _NARROWEST * np.maximum(np.abs(low), np.abs(high))
        halve = np.any(error > allowed, axis=0) & wide
        total = np.sum(fine[:, ~halve], axis=1) + (0.0 if total is None else total)
        if not np.any(halve):
            return total
        low, high = np.concatenate([low[halve], middle[halve]]), np.concatenate([middle[halve], high[halve]])
    raise ArithmeticError(f"an integral did not settle within {_MOST_HALVINGS} halvings")


def _panels(integrands: Callable[[Array], Array], low: Array, high: Array, nodes: Array, weights: Array) -> Array:
    half = (high - low) / 2
    points = low[:, None] + half[:, None] * (nodes + 1)
    values = integrands(points.ravel()).reshape(-1, *points.shape)
    sums: Array = np.sum(values * weights, axis=2) * half
    return sums
