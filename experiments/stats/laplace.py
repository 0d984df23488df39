"""The posterior of a logistic model with normal prior, by Laplace's approximation: the mode of initial prior times the
likelihood of **all** outcomes, and the inverse of the exact Hessian there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

from experiments.stats.noise import NoiseSource
from experiments.stats.posterior import NormalPosterior
from experiments.stats.priors import NormalPrior

type Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

# Of |x| times the prior's sd or mean (milliseconds since 1970 pass): beyond, nearly collinear contexts would leave no
# digit of the covariance.
LARGEST_LOG_ODDS = 1e13

_MOST_STEPS = 500  # each adds at least about 1 to log-odds, which end below 2 log(1e13) + log(outcomes)
_CONVERGED = 1e-20  # of the squared Newton decrement, which is in posterior standard deviations,
_SMALL_CHANGE = 1e-5  # with a change of all log-odds that leaves the Hessian as it is
_QUADRATIC = 1e-8  # below it a decrement that no longer falls is rounding


@dataclass(frozen=True, kw_only=True)
class ContextCount:
    """Binary outcomes at one context vector; (1.0,) without contexts."""

    x: tuple[float, ...]
    successes: int
    failures: int


def logistic_posterior(prior: NormalPrior, counts: Iterable[ContextCount]) -> NormalPosterior:
    """Equal contexts are added up and all are sorted, so the order of ``counts`` does not matter, to the last bit.

    Newton's method with line search on a strictly convex function: separated data end at a finite mode too.
    Raises ``ValueError`` for a context of another length, NaN, infinity, a negative count, or log-odds beyond
    ``LARGEST_LOG_ODDS`` at the prior.
    """
    data = _Data.of(prior, counts)
    coefficients = _mode(data)
    # The covariance in units of the prior's sd is (R'R)^-1; R comes from an orthogonal factorisation of the square
    # root of the Hessian, which keeps twice the digits that the Hessian itself would leave.
    root = solve_triangular(data.hessian_root(coefficients), np.eye(prior.dimensions))
    covariance = np.sum(root[:, None, :] * root[None, :, :], axis=2) * prior.sd**2
    return NormalPosterior(
        mu=tuple(prior.sd * value for value in coefficients.tolist()),
        covariance=tuple(tuple(row) for row in covariance.tolist()),
        n=data.n,
        prior_mean=prior.mean,
        prior_sd=prior.sd,
        noise_sd=None,
        noise_source=NoiseSource.BINARY,
    )


@dataclass(frozen=True, kw_only=True)
class _Data:
    """In units of the prior's sd: z = coefficients / sd. Not centred: near 0 a double has more digits than near the
    prior's mean, and large contexts need them."""

    n: int
    mean: float  # of the prior, of each z
    x: Array  # (coefficients, contexts), times the prior's sd
    successes: Array
    failures: Array

    @classmethod
    def of(cls, prior: NormalPrior, counts: Iterable[ContextCount]) -> _Data:
        merged: dict[tuple[float, ...], tuple[int, int]] = {}
        for count in counts:
            if min(count.successes, count.failures) < 0:
                raise ValueError(f"successes and failures must not be negative at context {count.x}")
            if len(count.x) != prior.dimensions:
                raise ValueError(f"a context must have {prior.dimensions} entries, not {len(count.x)}")
            before = merged.get(count.x, (0, 0))
            merged[count.x] = (before[0] + count.successes, before[1] + count.failures)
        contexts = sorted(merged)
        x = np.array(contexts, dtype=np.float64).reshape(len(contexts), prior.dimensions).T
        _require_range(x, prior)
        successes, failures = (np.array([merged[key][i] for key in contexts], dtype=np.float64) for i in (0, 1))
        return cls(
            n=sum(map(sum, merged.values())),
            mean=prior.mean / prior.sd,
            x=np.ascontiguousarray(x * prior.sd),
            successes=successes,
            failures=failures,
        )

    def log_odds(self, z: Array) -> Array:
        # Sums of numpy rather than a product of matrices: the same bits whatever library multiplies, with any threads.
        log_odds: Array = np.sum(self.x * z[:, None], axis=0)
        return log_odds

    def largest_change(self, step: Array) -> float:
        return float(np.max(np.abs(self.log_odds(step)), initial=0.0))

    def loss(self, z: Array) -> float:
        """Minus the logarithm of prior times likelihood. log p and log(1 - p) as -log(1 + exp(∓log-odds)): finite
        also where p rounds to 0 or 1."""
        log_odds = self.log_odds(z)
        terms = self.successes * np.logaddexp(0.0, -log_odds) + self.failures * np.logaddexp(0.0, log_odds)
        return float(np.sum(terms)) + 0.5 * float(np.sum((z - self.mean) ** 2))

    def gradient(self, z: Array) -> Array:
        log_odds = self.log_odds(z)
        surprise = self.successes * expit(-log_odds) - self.failures * expit(log_odds)
        gradient: Array = z - self.mean - np.sum(self.x * surprise, axis=1)
        return gradient

    def hessian_root(self, z: Array) -> Array:
        """Upper triangular R with R'R = I + Σ n p (1 - p) x xᵀ."""
        log_odds = self.log_odds(z)
        weights = (self.successes + self.failures) * expit(log_odds) * expit(-log_odds)
        rows = np.concatenate([np.eye(len(z)), (self.x * np.sqrt(weights)).T])
        root: Array = np.linalg.qr(rows, mode="r")
        return root


def _mode(data: _Data) -> Array:
    z: Array = np.full(len(data.x), data.mean)
    before = math.inf
    for _ in range(_MOST_STEPS):
        gradient = data.gradient(z)
        root = data.hessian_root(z)
        half = solve_triangular(root, gradient, trans="T")
        decrement = float(np.sum(half * half))
        step: Array = -solve_triangular(root, half)
        if decrement <= _CONVERGED and data.largest_change(step) <= _SMALL_CHANGE:
            return z + step
        if before <= decrement <= _QUADRATIC:
            return z
        z = z + _fraction_of(data, z, step, decrement) * step
        before = decrement
    raise ArithmeticError(f"the posterior's mode was not found in {_MOST_STEPS} Newton steps")


def _fraction_of(data: _Data, z: Array, step: Array, decrement: float) -> float:
    """How much of a Newton step to take: halved until the loss falls as Armijo's rule asks, up to rounding."""
    start = data.loss(z)
    rounding = 1e-14 * abs(start)
    fraction = 1.0
    while data.loss(z + fraction * step) > start - 1e-4 * fraction * decrement + rounding:
        fraction /= 2
        if fraction == 0.0:
            raise ArithmeticError("no part of a Newton step lowers the loss")
    return fraction


def _require_range(x: Array, prior: NormalPrior) -> None:
    if not np.all(np.isfinite(x)):
        raise ValueError("contexts must be finite numbers")
    largest: Sequence[float] = (1.0, prior.sd, abs(prior.mean))
    if x.size and float(np.max(np.abs(x))) > LARGEST_LOG_ODDS / max(largest):
        raise ValueError(f"a context times the prior's sd or mean lies beyond {LARGEST_LOG_ODDS:g}; scale the context")
