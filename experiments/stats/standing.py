"""Arms at one context, compared: from posteriors to marginal distributions, and the cases that need no integral."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from experiments.stats.comparison import Comparison, compare
from experiments.stats.marginals import Betas, LocationScale
from experiments.stats.posterior import BetaPosterior, NormalPosterior, Posterior
from experiments.stats.predictions import Latent, latent_at


def standing(posteriors: Sequence[Posterior], x: Sequence[float]) -> Comparison:
    """Raises ``ValueError`` when Beta and normal arms are mixed."""
    rates = [arm for arm in posteriors if isinstance(arm, BetaPosterior)]
    if rates and len(rates) == len(posteriors):
        return compare(
            Betas(alphas=np.array([arm.alpha for arm in rates]), betas=np.array([arm.beta for arm in rates]))
        )
    if rates:
        raise ValueError("Beta and normal arms cannot be mixed")
    return standing_of([latent_at(arm, x) for arm in posteriors if isinstance(arm, NormalPosterior)])


def standing_of(latents: Sequence[Latent]) -> Comparison:
    """All of them finite, all of log-odds or none."""
    certain = [latent.sd == 0 for latent in latents]
    if all(certain):
        return _of_points([float(expit(arm.mean)) if arm.logit else arm.mean for arm in latents])
    # An arm that is certain beside others that are not: narrow enough to act as a point.
    narrow = 1e-9 * min(latent.sd for latent in latents if latent.sd > 0)
    return compare(
        LocationScale(
            centres=np.array([latent.mean for latent in latents]),
            spreads=np.array([latent.sd or narrow for latent in latents]),
            dfs=np.array([latent.df for latent in latents]),
            logit=latents[0].logit,
        )
    )


def _of_points(means: Sequence[float]) -> Comparison:
    best = max(means)
    share = 1 / means.count(best)
    return Comparison(
        p_best=tuple(share if mean == best else 0.0 for mean in means),
        expected_loss=tuple(best - mean for mean in means),
    )
