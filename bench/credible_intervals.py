"""How often 95 % credible intervals hold the truth, when the truth is drawn from the prior.

    .venv/bin/python -m bench.credible_intervals [--runs N] [--seed N] [--write]

Every run draws coefficients from the prior and outcomes from the model, and goes through the functions that experiments
use. Prints a table, and exits 1 when a kind of bandit is covered in less than 93 % or more than 97 % of the runs.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import expit

from experiments.stats.gaussian_sums import GaussianSums
from experiments.stats.laplace import ContextCount, logistic_posterior
from experiments.stats.noise import noise_of
from experiments.stats.posterior import beta_posterior, gaussian_posterior
from experiments.stats.predictions import Prediction, latent_at, predict, predict_rate
from experiments.stats.priors import BetaPrior, NormalPrior

LEVEL = 0.95
RANGE = (0.93, 0.97)

type Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Beta:
    """A success rate after ``n`` binary outcomes."""

    name: str
    alpha: float
    beta: float
    n: int

    def covers(self, source: np.random.Generator) -> bool:
        truth = source.beta(self.alpha, self.beta)
        successes = int(source.binomial(self.n, truth))
        prior = BetaPrior(alpha=self.alpha, beta=self.beta)
        posterior = beta_posterior(prior, successes=successes, failures=self.n - successes)
        return _holds(predict_rate(posterior, level=LEVEL), truth)


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Two arms with ``n`` real outcomes each; the first one's mean at a new participant's context is judged."""

    name: str
    prior_sd: float
    noise_sd: float
    noise_known: bool
    n: int
    contexts: int = 0

    def covers(self, source: np.random.Generator) -> bool:
        dimensions = max(self.contexts, 1)
        prior = NormalPrior(mean=1.0, sd=self.prior_sd, dimensions=dimensions)
        truths = source.normal(prior.mean, prior.sd, (2, dimensions))
        sums = []
        for truth in truths:
            x = _contexts(source, self.n, self.contexts)
            y = x @ truth + source.normal(0.0, self.noise_sd, self.n)
            sums.append(GaussianSums.of(zip(x.tolist(), y.tolist(), strict=True), dimensions=dimensions))
        noise = noise_of(self.noise_sd if self.noise_known else None, sums)
        posterior = gaussian_posterior(prior, sums[0], noise=noise)
        (new,) = _contexts(source, 1, self.contexts)
        prediction = predict(latent_at(posterior, new.tolist()), noise_sd=posterior.noise_sd, level=LEVEL)
        return _holds(prediction, float(new @ truths[0]))


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """The success rate of a new participant's context after ``n`` binary outcomes."""

    name: str
    prior_sd: float
    n: int
    contexts: int = 0

    def covers(self, source: np.random.Generator) -> bool:
        dimensions = max(self.contexts, 1)
        prior = NormalPrior(mean=0.0, sd=self.prior_sd, dimensions=dimensions)
        truth = source.normal(prior.mean, prior.sd, dimensions)
        x = _contexts(source, self.n, self.contexts)
        y = source.random(self.n) < expit(x @ truth)
        posterior = logistic_posterior(
            prior,
            [
                ContextCount(x=tuple(row), successes=int(success), failures=int(not success))
                for row, success in zip(x.tolist(), y.tolist(), strict=True)
            ],
        )
        (new,) = _contexts(source, 1, self.contexts)
        return _holds(
            predict(latent_at(posterior, new.tolist()), noise_sd=None, level=LEVEL), float(expit(new @ truth))
        )


type Kind = Beta | Gaussian | Logistic

KINDS: tuple[Kind, ...] = (
    Beta(name="Beta(1, 1), 10 outcomes", alpha=1.0, beta=1.0, n=10),
    Beta(name="Beta(2, 18), 300 outcomes", alpha=2.0, beta=18.0, n=300),
    Gaussian(name="normal, known noise, 10 outcomes", prior_sd=2.0, noise_sd=2.5, noise_known=True, n=10),
    Gaussian(name="normal, estimated noise, 2 x 3 outcomes", prior_sd=20.0, noise_sd=2.5, noise_known=False, n=3),
    Gaussian(name="normal, estimated noise, 2 x 3, strong prior", prior_sd=1.0, noise_sd=2.5, noise_known=False, n=3),
    Gaussian(name="normal, estimated noise in the millions", prior_sd=1e7, noise_sd=3e6, noise_known=False, n=15),
    Gaussian(
        name="linear, 3 contexts, known noise, 20", prior_sd=1.0, noise_sd=2.0, noise_known=True, n=20, contexts=3
    ),
    Gaussian(
        name="linear, 3 contexts, estimated noise, 2 x 8",
        prior_sd=1.0,
        noise_sd=2.0,
        noise_known=False,
        n=8,
        contexts=3,
    ),
    Logistic(name="logistic, no contexts, 60 outcomes", prior_sd=1.0, n=60),
    Logistic(name="logistic, 3 contexts, 150 outcomes", prior_sd=1.0, n=150, contexts=3),
)


def coverage(kind: Kind, *, runs: int, seed: int) -> float:
    source = np.random.default_rng(seed)
    return sum(kind.covers(source) for _ in range(runs)) / runs


def table(found: Sequence[tuple[Kind, float]], *, runs: int, seed: int) -> str:
    error = (LEVEL * (1 - LEVEL) / runs) ** 0.5
    lines = [
        "# Coverage of 95 % credible intervals\n",
        f"{runs} runs each, seed {seed}; a true 95 % shows as {LEVEL:.1%} ± {2 * error:.1%} (two Monte Carlo standard "
        f"errors). Asked: {RANGE[0]:.0%} to {RANGE[1]:.0%}.\n",
        "| bandit | covered | |",
        "|---|---:|---|",
    ]
    lines += [f"| {kind.name} | {share:.2%} | {'met' if _met(share) else '**missed**'} |" for kind, share in found]
    return "\n".join([*lines, ""])


def _contexts(source: np.random.Generator, n: int, contexts: int) -> Array:
    """A constant and standard normal ones; without contexts the constant alone."""
    x: Array = source.normal(size=(n, max(contexts, 1)))
    x[:, 0] = 1.0
    return x


def _holds(prediction: Prediction, truth: float) -> bool:
    assert prediction.ci is not None
    low, high = prediction.ci
    return low <= truth <= high


def _met(share: float) -> bool:
    return RANGE[0] <= share <= RANGE[1]


def main(say: Callable[[str], object] = print) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.credible_intervals", description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write bench/results/credible_intervals.md")
    chosen = parser.parse_args()
    found = [(kind, coverage(kind, runs=chosen.runs, seed=chosen.seed)) for kind in KINDS]
    text = table(found, runs=chosen.runs, seed=chosen.seed)
    say(text)
    if chosen.write:
        (Path(__file__).parent / "results" / "credible_intervals.md").write_text(text)
    return 0 if all(_met(share) for _, share in found) else 1


if __name__ == "__main__":
    sys.exit(main())
