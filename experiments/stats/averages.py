"""An arm's mean outcome averaged over the contexts of all draws: what it would bring if everybody had got it.

Never the prediction at the mean context, which is another number where the model is not linear.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri

from experiments.stats.posterior import NormalPosterior
from experiments.stats.predictions import Latent, expit_moments, latent_at

type Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

_CHUNK = 4096  # contexts at a time, so that memory stays flat
_FEWEST_POINTS = 128
_TRAPEZOID_REACH = 8.5  # standard deviations; what lies beyond is below 1e-16
_WIDEST_TRAPEZOID = 8.0  # standard deviation of log-odds


@dataclass(frozen=True, kw_only=True)
class DrawnContext:
    """A context vector that ``n`` draws had, pending ones too."""

    x: tuple[float, ...]
    n: int


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """Distinct contexts, sorted, with each one's share of all draws: the same whatever order they came in."""

    x: Array  # (contexts, coefficients)
    shares: Array

    @classmethod
    def of(cls, drawn: Iterable[DrawnContext]) -> Contexts | None:
        """``None`` when there is no draw. Raises ``ValueError`` for a negative count, NaN or infinity, or contexts of
        different lengths."""
        counts: dict[tuple[float, ...], int] = {}
        for context in drawn:
            if context.n < 0:
                raise ValueError(f"n must not be negative at context {context.x}")
            if not all(map(math.isfinite, context.x)):
                raise ValueError(f"a context must hold finite numbers, not {context.x}")
            counts[context.x] = counts.get(context.x, 0) + context.n
        ordered = sorted(x for x, n in counts.items() if n)
        if not ordered:
            return None
        if len(set(map(len, ordered))) > 1:
            raise ValueError("contexts must all have the same length")
        n = np.array([counts[x] for x in ordered], dtype=np.float64)
        return cls(x=np.array(ordered, dtype=np.float64), shares=n / np.sum(n))

    @property
    def mean(self) -> tuple[float, ...]:
        return tuple(
            math.fsum(share * value for share, value in zip(self.shares.tolist(), column, strict=True))
            for column in self.x.T.tolist()
        )


def latent_over(posterior: NormalPosterior, contexts: Contexts) -> Latent:
    """The distribution of the averaged mean outcome, or of its log-odds.

    Linear models: exact, since the average is the prediction at the mean context. Logistic models: the normal
    distribution of log-odds with the exact mean of the averaged probability, and with the spread of its log-odds found
    on a fixed set of points; exact for one context, an approximation for more: ends of its interval are a few
    thousandths from the exact ones after a hundred outcomes, and up to 0.03 where a wide prior still rules.
    """
    if not posterior.is_logistic:
        return latent_at(posterior, contexts.mean)
    if len(contexts.shares) == 1:
        return latent_at(posterior, contexts.x[0].tolist())
    log_odds = _log_odds_of_average(posterior, contexts)
    centre = float(np.mean(log_odds))
    sd = float(np.sqrt(np.mean((log_odds - centre) ** 2)))
    return Latent(mean=_centre(average_probability(posterior, contexts), sd, centre), sd=sd, df=math.inf, logit=True)


def average_probability(posterior: NormalPosterior, contexts: Contexts) -> float:
    """The mean over contexts and over the posterior of the logistic function, to 1e-14."""
    mu, covariance = np.array(posterior.mu), np.array(posterior.covariance)
    total = []
    for begin in range(0, len(contexts.shares), _CHUNK):
        x = contexts.x[begin : begin + _CHUNK]
        largest = np.maximum(np.max(np.abs(x), axis=1), np.finfo(np.float64).tiny)
        direction = x / largest[:, None]
        variances = np.einsum("ni,ij,nj->n", direction, covariance, direction)
        means = largest * np.einsum("ni,i->n", direction, mu)
        sds = largest * np.sqrt(np.maximum(variances, 0.0))
        total.append(float(np.sum(contexts.shares[begin : begin + _CHUNK] * _expit_means(means, sds))))
    return min(math.fsum(total), 1.0)


def _expit_means(means: Array, sds: Array) -> Array:
    """Of normal log-odds. The trapezoidal rule errs by exp(-2 pi d / step), d = pi / sd being how far the logistic
    function's poles lie from the real axis, so a step of 0.5 / sd leaves 1e-17. Wide ones are few and done one by
    one."""
    result = np.empty_like(means)
    wide = sds > _WIDEST_TRAPEZOID
    result[wide] = [
        expit_moments(Latent(mean=mean, sd=sd, df=math.inf, logit=True))[0]
        for mean, sd in zip(means[wide].tolist(), sds[wide].tolist(), strict=True)
    ]
    if not np.all(wide):
        steps = math.ceil(_TRAPEZOID_REACH / min(0.5, 0.5 / max(float(np.max(sds[~wide])), 1.0)))
        z = np.linspace(-_TRAPEZOID_REACH, _TRAPEZOID_REACH, 2 * steps + 1)
        weights = np.exp(-z * z / 2)
        weights /= np.sum(weights)
        values = np.zeros_like(means[~wide])
        for node, weight in zip(z.tolist(), weights.tolist(), strict=True):
            values += weight * expit(means[~wide] + sds[~wide] * node)
        result[~wide] = values
    return result


def _log_odds_of_average(posterior: NormalPosterior, contexts: Contexts) -> Array:
    points = _points(len(posterior.mu))
    root = np.linalg.cholesky(_nearest_definite(np.array(posterior.covariance)))
    coefficients = np.array(posterior.mu) + points @ root.T
    average = np.zeros(len(points))
    for begin in range(0, len(contexts.shares), _CHUNK):
        log_odds = coefficients @ contexts.x[begin : begin + _CHUNK].T
        shares = contexts.shares[begin : begin + _CHUNK]
        average += np.sum(shares * expit(log_odds), axis=1)
    # Nearer to 0 or 1 than this no average differs for any decision, and its log-odds stay finite.
    result: Array = logit(np.clip(average, 1e-15, 1 - 1e-15))
    return result


@cache
def _points(dimensions: int) -> Array:
    """Points with equal weights that stand for the standard normal distribution: a Sobol sequence, mirrored so that the
    mean is 0 and stretched so that the covariance is I, which makes all linear and quadratic parts exact."""
    # A second to import, and few processes come here.
    from scipy.stats import qmc

    exponent = max(_FEWEST_POINTS, 4 * dimensions).bit_length() - 1
    uniform = qmc.Sobol(dimensions, scramble=False).random_base2(exponent) + 0.5 / 2**exponent
    half = ndtri(uniform)
    root = np.linalg.cholesky(half.T @ half / len(half))
    half = np.linalg.solve(root, half.T).T
    points: Array = np.concatenate([half, -half])
    points.flags.writeable = False
    return points


def _nearest_definite(covariance: Array) -> Array:
    """Rounding may have left a covariance a little indefinite, where contexts were nearly collinear."""
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    smallest = float(np.min(np.linalg.eigvalsh(correlation)))
    lift = max(1e-12 - smallest, 0.0)
    result: Array = covariance + np.diag(np.diag(covariance)) * lift
    return result


def _centre(probability: float, sd: float, otherwise: float) -> float:
    """The mean of normal log-odds with this sd whose probability has this mean; ``otherwise`` where it rounds to 0 or
    1 and so does not tell."""
    if not 1e-12 < probability < 1 - 1e-12:
        return otherwise
    reach = abs(otherwise) + 10 * sd + 40

    def excess(mean: float) -> float:
        return float(_expit_means(np.array([mean]), np.array([sd]))[0]) - probability

    return float(brentq(excess, -reach, reach, xtol=1e-13, rtol=1e-14))
