"""What is believed of an arm after its outcomes: a pure function of the **initial** prior and **all** outcomes.

The conjugate ones live here: Beta for success rates, normal for real-valued outcomes. ``laplace`` has the logistic one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from experiments.stats.exact import exact, inverse, product
from experiments.stats.gaussian_sums import GaussianSums
from experiments.stats.noise import Noise, NoiseSource
from experiments.stats.priors import BetaPrior, NormalPrior


@dataclass(frozen=True, kw_only=True)
class BetaPosterior:
    """After ``n`` outcomes."""

    alpha: float
    beta: float
    n: int


@dataclass(frozen=True, kw_only=True)
class NormalPosterior:
    """Of an arm's coefficients after ``n`` outcomes; ``noise_source`` BINARY: of their log-odds.

    ``prior_mean`` and ``prior_sd`` are what each coefficient had before: they tell how much hangs on an estimated
    noise. ``noise_df``: degrees of freedom when the noise was estimated. ``reason`` says why the posterior is still the
    prior although there may be outcomes (the noise is neither given nor estimable yet).
    """

    mu: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    n: int
    prior_mean: float
    prior_sd: float
    noise_sd: float | None
    noise_source: NoiseSource
    noise_df: int | None = None
    reason: str | None = None

    @property
    def is_logistic(self) -> bool:
        return self.noise_source is NoiseSource.BINARY


type Prior = BetaPrior | NormalPrior
type Posterior = BetaPosterior | NormalPosterior


def beta_posterior(prior: BetaPrior, *, successes: int, failures: int) -> BetaPosterior:
    """Raises ``ValueError`` for a negative count."""
    for name, count in (("successes", successes), ("failures", failures)):
        if count < 0:
            raise ValueError(f"{name} must not be negative: {count}")
    return BetaPosterior(
        alpha=float(exact(prior.alpha) + successes),
        beta=float(exact(prior.beta) + failures),
        n=successes + failures,
    )


def gaussian_posterior(prior: NormalPrior, sums: GaussianSums, *, noise: Noise) -> NormalPosterior:
    """Precision I / prior_sd² + Σ x xᵀ / noise², in rational arithmetic: the same bits for any order of arrival.

    Without a noise the prior is returned with the reason. Raises ``ValueError`` when the dimensions differ, and
    ``OverflowError`` when the result lies beyond the range of doubles.
    """
    if sums.dimensions != prior.dimensions:
        raise ValueError(f"the sums have {sums.dimensions} coefficients, the prior has {prior.dimensions}")
    prior_precision = 1 / exact(prior.sd) ** 2
    # Without a noise nothing can be weighed against the prior: no outcome has a weight.
    weight = Fraction(0) if noise.sd is None else 1 / exact(noise.sd) ** 2
    covariance = inverse(
        [
            [value * weight + (prior_precision if i == j else 0) for j, value in enumerate(row)]
            for i, row in enumerate(sums.xx)
        ]
    )
    mu = product(covariance, [exact(prior.mean) * prior_precision + value * weight for value in sums.xy])
    return NormalPosterior(
        mu=tuple(float(value) for value in mu),
        covariance=tuple(tuple(float(value) for value in row) for row in covariance),
        n=sums.n,
        prior_mean=prior.mean,
        prior_sd=prior.sd,
        noise_sd=noise.sd,
        noise_source=noise.source,
        noise_df=noise.df,
        reason=noise.reason,
    )
