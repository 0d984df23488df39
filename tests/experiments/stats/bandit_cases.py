"""The reference cases of bandits as the values that the product works with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.stats.averages import DrawnContext
from experiments.stats.gaussian_sums import GaussianSums
from experiments.stats.laplace import ContextCount, logistic_posterior
from experiments.stats.noise import noise_of
from experiments.stats.posterior import Posterior, Prior, beta_posterior, gaussian_posterior
from experiments.stats.priors import BetaPrior, NormalPrior
from experiments.stats.summary import ArmBelief
from tests.support.golden import Case

type Draw = dict[str, Any]

WITHOUT_CONTEXT = (1.0,)


def prior_of(case: Case, arm: dict[str, Any]) -> Prior:
    if case.kind == "bandit_beta":
        return BetaPrior(alpha=arm["alpha_init"], beta=arm["beta_init"])
    return NormalPrior(
        mean=arm["mu_init"], sd=arm["prior_sd"], dimensions=len(case.inputs.get("contexts", WITHOUT_CONTEXT))
    )


def observed(case: Case, arm: str, draws: Sequence[Draw] | None = None) -> list[Draw]:
    rows = case.inputs["draws"] if draws is None else draws
    return [draw for draw in rows if draw["arm"] == arm and draw["outcome"] is not None]


def context_of(draw: Draw) -> tuple[float, ...]:
    return tuple(draw.get("context", WITHOUT_CONTEXT))


def sums_of(case: Case, rows: Sequence[Draw]) -> GaussianSums:
    dimensions = len(case.inputs.get("contexts", WITHOUT_CONTEXT))
    return GaussianSums.of([(context_of(draw), draw["outcome"]) for draw in rows], dimensions=dimensions)


def counts_of(rows: Sequence[Draw]) -> list[ContextCount]:
    return [
        ContextCount(x=context_of(draw), successes=int(draw["outcome"]), failures=1 - int(draw["outcome"]))
        for draw in rows
    ]


def posterior_of(case: Case, prior: Prior, rows: Sequence[Draw]) -> Posterior:
    if isinstance(prior, BetaPrior):
        successes = sum(draw["outcome"] for draw in rows)
        return beta_posterior(prior, successes=successes, failures=len(rows) - successes)
    if case.kind == "bandit_logistic":
        return logistic_posterior(prior, counts_of(rows))
    return gaussian_posterior(prior, sums_of(case, rows), noise=noise_of(case.inputs["noise_sd"], []))


def beliefs_of(case: Case, draws: Sequence[Draw] | None = None) -> list[ArmBelief]:
    beliefs = []
    for arm in case.inputs["arms"]:
        prior = prior_of(case, arm)
        beliefs.append(ArmBelief(prior=prior, posterior=posterior_of(case, prior, observed(case, arm["arm"], draws))))
    return beliefs


def drawn_contexts(case: Case) -> list[DrawnContext] | None:
    if "contexts" not in case.inputs:
        return None
    return [DrawnContext(x=context_of(draw), n=1) for draw in case.inputs["draws"]]
