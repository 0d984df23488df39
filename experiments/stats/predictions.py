"""What an arm's posterior says of the outcome at one context: mean, standard deviations and a credible interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betainccinv, betaincinv, expit, ndtri, stdtrit

from experiments.stats.marginals import LocationScale
from experiments.stats.posterior import BetaPosterior, NormalPosterior
from experiments.stats.quadrature import integrate
from experiments.stats.results import Interval

_SMALLEST_SHARE = 1e-6  # below, Student's t is the normal distribution to the last digit shown

type Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """``mean`` of the outcome, ``parameter_sd`` of that mean as far as it is known, ``predictive_sd`` of one outcome
    (both together), ``ci`` the equal-tailed credible interval of the mean. For logistic models also the normal
    distribution of the log-odds. ``None``: not known (no noise yet), or beyond the range of doubles."""

    mean: float | None
    parameter_sd: float | None
    predictive_sd: float | None
    ci: Interval | None
    latent_mean: float | None = None
    latent_sd: float | None = None


@dataclass(frozen=True, kw_only=True)
class Latent:
    """The distribution of a mean outcome, or with ``logit`` of its log-odds: normal, or Student's t around ``mean``
    with scale ``sd`` and ``df`` degrees of freedom."""

    mean: float
    sd: float
    df: float
    logit: bool

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.mean) and math.isfinite(self.sd)

    def quantile(self, probability: float) -> float:
        z = float(ndtri(probability)) if math.isinf(self.df) else float(stdtrit(self.df, probability))
        return self.mean + self.sd * z


def latent_at(posterior: NormalPosterior, x: Sequence[float]) -> Latent:
    """Of xᵀ coefficients: mean xᵀ mu, variance xᵀ V x.

    When the noise was estimated with nu degrees of freedom, its logarithm has the variance 2 / nu. The share w = 1 -
    xᵀ V V x / (prior_sd² xᵀ V x) of the variance moves with the noise, from 0 (all from the prior) to 1 (all from
    outcomes), and the mean moves by s = xᵀ V (prior mean - mu) / prior_sd². To first order the variance is then
    xᵀ V x (1 + 2 w / nu) + 2 s² / nu by the law of total variance: a Student t with nu / w degrees of freedom whose
    squared scale is xᵀ V x + 2 s² / nu. Where the prior has no weight that is the classical t interval.
    Raises ``ValueError`` when x has another length than the coefficients, or holds NaN or infinity.
    """
    if len(x) != len(posterior.mu):
        raise ValueError(f"a context must have {len(posterior.mu)} entries, not {len(x)}")
    if not all(map(math.isfinite, x)):
        raise ValueError(f"a context must hold finite numbers, not {x}")
    largest = max(map(abs, x))
    if largest == 0:
        return Latent(mean=0.0, sd=0.0, df=math.inf, logit=posterior.is_logistic)
    direction = [value / largest for value in x]
    spread = [math.fsum(a * b for a, b in zip(row, direction, strict=True)) for row in posterior.covariance]
    variance = max(math.fsum(a * b for a, b in zip(direction, spread, strict=True)), 0.0)
    df = math.inf
    if posterior.noise_df is not None and variance > 0:
        to_prior = [posterior.prior_mean - value for value in posterior.mu]
        moves = math.fsum(a * b for a, b in zip(spread, to_prior, strict=True)) / posterior.prior_sd**2
        from_prior = math.fsum((value / posterior.prior_sd) ** 2 for value in spread) / variance
        df = posterior.noise_df / min(max(1.0 - from_prior, _SMALLEST_SHARE), 1.0)
        variance += 2 * moves**2 / posterior.noise_df
    return Latent(
        mean=largest * math.fsum(a * b for a, b in zip(direction, posterior.mu, strict=True)),
        sd=largest * math.sqrt(variance),
        df=df,
        logit=posterior.is_logistic,
    )


def predict(latent: Latent, *, noise_sd: float | None, level: float) -> Prediction:
    """``level`` is the interval's, in (0, 1)."""
    if not latent.is_finite:
        return Prediction(mean=None, parameter_sd=None, predictive_sd=None, ci=None)
    tail = (1 - level) / 2
    low, high = latent.quantile(tail), latent.quantile(1 - tail)
    if latent.logit:
        mean, sd = expit_moments(latent)
        return Prediction(
            mean=mean,
            parameter_sd=sd,
            predictive_sd=math.sqrt(mean * (1 - mean)),
            ci=(float(expit(low)), float(expit(high))),
            latent_mean=latent.mean,
            latent_sd=latent.sd,
        )
    return Prediction(
        mean=latent.mean,
        parameter_sd=latent.sd,
        predictive_sd=None if noise_sd is None else _finite(math.hypot(latent.sd, noise_sd)),
        ci=(low, high) if math.isfinite(low) and math.isfinite(high) else None,
    )


def predict_rate(posterior: BetaPosterior, *, level: float) -> Prediction:
    """Of a success rate with a Beta distribution."""
    total = posterior.alpha + posterior.beta
    mean, complement = posterior.alpha / total, posterior.beta / total
    tail = (1 - level) / 2
    return Prediction(
        mean=mean,
        parameter_sd=math.sqrt(mean * complement / (total + 1)),
        predictive_sd=math.sqrt(mean * complement),
        ci=(
            float(betaincinv(posterior.alpha, posterior.beta, tail)),
            float(betainccinv(posterior.alpha, posterior.beta, tail)),
        ),
    )


def expit_moments(latent: Latent) -> tuple[float, float]:
    """Mean and standard deviation of a probability whose log-odds are normal, by quadrature."""
    if latent.sd == 0:
        return float(expit(latent.mean)), 0.0
    one = LocationScale(
        centres=np.array([latent.mean]), spreads=np.array([latent.sd]), dfs=np.array([math.inf]), logit=True
    )
    points = one.breakpoints()

    def mean_and_mass(at: Array) -> Array:
        density = one.density(at)
        return np.concatenate([density * expit(at), density])

    with np.errstate(under="ignore"):
        first, mass = integrate(mean_and_mass, points).tolist()
        mean = first / mass
        (second,) = integrate(lambda at: one.density(at) * (expit(at) - mean) ** 2, points).tolist()
    return min(mean, 1.0), math.sqrt(second / mass)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
