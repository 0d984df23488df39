"""Sums of two values of each participant together, which ratio metrics and covariate adjustment need: centred products
up to x^4 and x^2 y^2, as robust errors of a regression ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

ORDERS = ((2, 0), (1, 1), (0, 2), (3, 0), (2, 1), (1, 2), (4, 0), (3, 1), (2, 2))


@dataclass(frozen=True, kw_only=True)
class CrossMoments:
    """``n`` pairs; ``products[i, j]`` is the sum of (x - mean_x)^i (y - mean_y)^j, for the pairs of ``ORDERS``."""

    n: int
    mean_x: float
    mean_y: float
    products: Mapping[tuple[int, int], float]

    @classmethod
    def of(cls, x: Sequence[float], y: Sequence[float]) -> CrossMoments:
        """Raises ``ValueError`` for lists of different lengths, empty ones, and values that are not finite."""
        if len(x) != len(y) or len(x) == 0:
            raise ValueError(f"x and y must be as long as each other and not empty: {len(x)} and {len(y)}")
        if not (all(map(math.isfinite, x)) and all(map(math.isfinite, y))):
            raise ValueError("x and y must be finite; leave out pairs of which one is missing")
        u, v = np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)
        mean_x, mean_y = float(u.mean()), float(v.mean())
        raw = {(0, 0): float(len(u))}
        for i, j in ((1, 0), (0, 1), *ORDERS):
            raw[i, j] = float(np.sum((u - mean_x) ** i * (v - mean_y) ** j))
        # The means are rounded: move on to what the deviations say the means are.
        return _centred(raw, mean_x, mean_y)

    def product(self, i: int, j: int) -> float:
        if (i, j) == (0, 0):
            return float(self.n)
        return 0.0 if i + j == 1 else self.products[i, j]

    def merge(self, other: CrossMoments) -> CrossMoments:
        """Both samples together."""
        mean_x = self.mean_x + (other.mean_x - self.mean_x) * (other.n / (self.n + other.n))
        mean_y = self.mean_y + (other.mean_y - self.mean_y) * (other.n / (self.n + other.n))
        parts = [_about(each, mean_x, mean_y) for each in (self, other)]
        return _centred({order: parts[0][order] + parts[1][order] for order in parts[0]}, mean_x, mean_y)


def _about(moments: CrossMoments, x: float, y: float) -> dict[tuple[int, int], float]:
    """Sums of products about another point, by the binomial theorem."""
    return _shifted(moments.product, moments.mean_x - x, moments.mean_y - y)


def _centred(raw: Mapping[tuple[int, int], float], x: float, y: float) -> CrossMoments:
    """From sums about (x, y), which lies near the means."""
    n = round(raw[0, 0])
    off_x, off_y = raw[1, 0] / n, raw[0, 1] / n
    products = _shifted(lambda i, j: raw[i, j], -off_x, -off_y)
    return CrossMoments(n=n, mean_x=x + off_x, mean_y=y + off_y, products={order: products[order] for order in ORDERS})


def _shifted(sums: Callable[[int, int], float], dx: float, dy: float) -> dict[tuple[int, int], float]:
    """Sums of (u + dx)^i (v + dy)^j from sums of u^i v^j."""
    return {
        (i, j): math.fsum(
            math.comb(i, p) * math.comb(j, q) * dx ** (i - p) * dy ** (j - q) * sums(p, q)
            for p in range(i + 1)
            for q in range(j + 1)
        )
        for i, j in ((0, 0), (1, 0), (0, 1), *ORDERS)
    }
