"""Whether a stored mode and covariance are those of a logistic posterior, in one pass over outcomes not kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from experiments.stats.laplace import Array, ContextCount
from experiments.stats.priors import NormalPrior


class ModeCheck:
    """Adds up gradient and Hessian at the stored mode; the true mode is the only place where the gradient vanishes."""

    def __init__(self, prior: NormalPrior, mu: Array, covariance: Array) -> None:
        self._mu = mu
        self._covariance = covariance
        self._gradient: Array = (mu - prior.mean) / prior.sd**2
        self._hessian: Array = np.eye(len(mu)) / prior.sd**2

    @classmethod
    def of(cls, prior: NormalPrior, *, mu: Sequence[float], covariance: Sequence[Sequence[float]]) -> ModeCheck:
        """Raises ``ValueError`` when they do not fit the prior's dimensions or are no finite numbers."""
        mode, spread = np.array(mu, dtype=np.float64), np.array(covariance, dtype=np.float64)
        if mode.shape != (prior.dimensions,) or spread.shape != (prior.dimensions,) * 2:
            raise ValueError(f"mu and covariance must have {prior.dimensions} entries each way")
        if not (np.all(np.isfinite(mode)) and np.all(np.isfinite(spread))):
            raise ValueError("mu and covariance must be finite numbers")
        return cls(prior, mode, spread)

    def add(self, counts: Sequence[ContextCount]) -> None:
        """Raises ``ValueError`` for a context of another length or one that is not finite."""
        if not counts:
            return
        x = np.array([count.x for count in counts], dtype=np.float64)
        if x.shape[1:] != self._mu.shape or not np.all(np.isfinite(x)):
            raise ValueError(f"each context must have {len(self._mu)} finite entries")
        successes = np.array([count.successes for count in counts], dtype=np.float64)
        failures = np.array([count.failures for count in counts], dtype=np.float64)
        log_odds = x @ self._mu
        up, down = expit(log_odds), expit(-log_odds)
        self._gradient = self._gradient - x.T @ (successes * down - failures * up)
        self._hessian = self._hessian + (x.T * ((successes + failures) * up * down)) @ x

    def distance(self) -> float:
        """The larger of two: from the stored mode to the true one in posterior standard deviations, and of the stored
        covariance from the true one relative to its variances."""
        step = np.linalg.solve(self._hessian, self._gradient)
        covariance = np.linalg.inv(self._hessian)
        sd = np.sqrt(np.diag(covariance))
        mode = float(np.sqrt(max(float(self._gradient @ step), 0.0)))
        spread = float(np.max(np.abs(self._covariance - covariance) / np.outer(sd, sd)))
        return max(mode, spread)

    def better_mode(self) -> list[float]:
        """One Newton step on."""
        better: list[float] = (self._mu - np.linalg.solve(self._hessian, self._gradient)).tolist()
        return better
