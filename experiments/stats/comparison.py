"""How independent arms compare: the probability of being best, and what choosing an arm is expected to lose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.stats.marginals import Marginals
from experiments.stats.quadrature import integrate

type Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """By arm. ``expected_loss`` is the expected shortfall of the arm's mean from the largest one, in outcome units."""

    p_best: tuple[float, ...]
    expected_loss: tuple[float, ...]


def compare(marginals: Marginals) -> Comparison:
    """With F the distribution functions and f the densities of the arms' means:

    P(a is best) = ∫ f_a Π_{b≠a} F_b, and the loss of a is E[(max_{b≠a} θ_b - θ_a)+] = ∫ F_a (1 - Π_{b≠a} F_b):
    only positive terms, so that small probabilities and losses keep their digits.
    """

    def integrands(points: Array) -> Array:
        log_cdf, density = marginals.log_cdf(points), marginals.density(points)
        others = _sums_of_others(log_cdf)
        loss = np.exp(log_cdf) * -np.expm1(others) * marginals.slope(points)
        return np.concatenate([density, density * np.exp(others), loss])

    with np.errstate(under="ignore"):
        mass, best, loss = np.split(integrate(integrands, marginals.breakpoints()), 3)
    return Comparison(
        p_best=tuple(np.minimum(best / mass, 1.0).tolist()),
        expected_loss=tuple((loss * marginals.unit).tolist()),
    )


def _sums_of_others(values: Array) -> Array:
    """For each row the sum of all other rows, without subtracting (rows hold minus infinity)."""
    before, after = np.zeros_like(values), np.zeros_like(values)
    np.cumsum(values[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumsum(values[:0:-1], axis=0)[::-1]
    return before + after
