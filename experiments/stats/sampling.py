"""Which arm a participant gets: Thompson sampling, and top-two Thompson sampling from five arms on.

Russo (2020), "Simple Bayesian algorithms for best-arm identification": with probability ``LEADER_PROBABILITY`` the arm
that one sample from the posteriors puts first, else the first other arm that further samples put first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.stats.posterior import BetaPosterior, NormalPosterior, Posterior
from experiments.stats.predictions import Latent, latent_at
from experiments.stats.standing import standing

TOP_TWO_FROM = 5  # arms
LEADER_PROBABILITY = 0.9

_MOST_SAMPLES = 64


def choose_arm(posteriors: Sequence[Posterior], x: Sequence[float], rng: np.random.Generator) -> int:
    """The index of the arm for a participant with context ``x``, (1.0,) without contexts (Beta arms ignore it).

    Random numbers come from ``rng`` alone. Raises ``ValueError`` without arms, or with Beta and normal ones mixed.
    """
    arms = _Arms(posteriors, x)
    leader = arms.first_in_a_sample(rng)
    if len(posteriors) < TOP_TWO_FROM or rng.random() < LEADER_PROBABILITY:
        return leader
    for _ in range(_MOST_SAMPLES):
        challenger = arms.first_in_a_sample(rng)
        if challenger != leader:
            return challenger
    return _challenger(arms, leader, rng)


class _Arms:
    """Posteriors at one context, ready for sampling."""

    def __init__(self, posteriors: Sequence[Posterior], x: Sequence[float]) -> None:
        if not posteriors:
            raise ValueError("there must be at least one arm")
        self.posteriors = posteriors
        self.x = x
        self._latents = [latent_at(arm, x) for arm in posteriors if isinstance(arm, NormalPosterior)]
        if len(self._latents) not in (0, len(posteriors)):
            raise ValueError("Beta and normal arms cannot be mixed")

    def first_in_a_sample(self, rng: np.random.Generator) -> int:
        if self._latents:
            sample = [_sample(latent, rng) for latent in self._latents]
        else:
            sample = [rng.beta(arm.alpha, arm.beta) for arm in self.posteriors if isinstance(arm, BetaPosterior)]
        # Rates that round to 0 or 1, and contexts of zeros, make equal samples: no arm is preferred by its position.
        best = [index for index, value in enumerate(sample) if value == max(sample)]
        return best[0] if len(best) == 1 else best[rng.integers(len(best))]


def _challenger(arms: _Arms, leader: int, rng: np.random.Generator) -> int:
    """What endless resampling would come to: another arm with probability proportional to that of being best."""
    p_best = standing(arms.posteriors, arms.x).p_best
    others = [index for index in range(len(p_best)) if index != leader]
    weights = np.array([p_best[index] for index in others])
    if not np.any(weights > 0):
        weights = np.ones(len(others))  # all below the smallest double: nothing tells them apart
    return others[int(rng.choice(len(others), p=weights / np.sum(weights)))]


def _sample(latent: Latent, rng: np.random.Generator) -> float:
    return latent.mean + latent.sd * (rng.standard_normal() if np.isinf(latent.df) else rng.standard_t(latent.df))
