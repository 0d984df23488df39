"""All that is reported of a bandit's arms: prior and posterior predictions by context, and how the arms compare.

Exact quantiles and quadrature, no random numbers: two looks at the same data give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments.stats.averages import Contexts, DrawnContext, latent_over
from experiments.stats.posterior import BetaPosterior, NormalPosterior, Posterior, Prior
from experiments.stats.predictions import Latent, Prediction, latent_at, predict, predict_rate
from experiments.stats.priors import BetaPrior, NormalPrior
from experiments.stats.standing import standing, standing_of

_BEYOND_RANGE = "a prediction at this context lies beyond the range of double precision"


@dataclass(frozen=True, kw_only=True)
class ArmBelief:
    """An arm's initial prior, and its posterior after all outcomes."""

    prior: Prior
    posterior: Posterior


@dataclass(frozen=True, kw_only=True)
class ArmSummary:
    """``p_best``: probability that the arm's mean is the largest. ``expected_loss``: expected shortfall of the arm's
    mean from the largest, in outcome units. ``reason`` says why there is no number, or why outcomes changed nothing."""

    prior: Prediction
    posterior: Prediction
    p_best: float | None
    expected_loss: float | None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class ContextSummary:
    """Arms in the caller's order at one context; ``context`` is ``None`` without contexts and for the average."""

    context: tuple[float, ...] | None
    arms: tuple[ArmSummary, ...]


@dataclass(frozen=True, kw_only=True)
class BanditSummary:
    """``overall``: without contexts the arms as such, with contexts averaged over all draws' contexts (``None`` before
    the first draw). ``at``: at each context asked for."""

    level: float
    overall: ContextSummary | None
    at: tuple[ContextSummary, ...]


def summarize(
    arms: Sequence[ArmBelief],
    *,
    level: float = 0.95,
    draws: Iterable[DrawnContext] | None = None,
    at: Sequence[tuple[float, ...]] = (),
) -> BanditSummary:
    """``draws``: distinct contexts of all draws, pending ones too; ``None`` for experiments without contexts, whose
    arms have Beta priors or one coefficient.

    The average costs time with arms times distinct contexts: about a second for 10 arms and 10,000 contexts. Each
    context in ``at`` costs some milliseconds.
    Raises ``ValueError`` without arms, for arms of different kinds, or a level outside (0, 1).
    """
    if not arms:
        raise ValueError("there must be at least one arm")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    if isinstance(arms[0].prior, BetaPrior):
        if draws is not None or at:
            raise ValueError("arms with Beta priors have no contexts")
        return BanditSummary(level=level, overall=_rates(arms, level), at=())
    beliefs = [_normal(arm) for arm in arms]
    return BanditSummary(
        level=level,
        overall=_overall(beliefs, draws, level),
        at=tuple(
            _summary(beliefs, [(latent_at(before, x), latent_at(after, x)) for before, after in beliefs], level, x)
            for x in at
        ),
    )


type _Belief = tuple[NormalPosterior, NormalPosterior]


def _normal(arm: ArmBelief) -> _Belief:
    """Prior and posterior in the same form, with the same noise."""
    prior, posterior = arm.prior, arm.posterior
    if not (isinstance(prior, NormalPrior) and isinstance(posterior, NormalPosterior)):
        raise ValueError("Beta and normal arms cannot be mixed")
    indices = range(prior.dimensions)
    before = NormalPosterior(
        mu=(prior.mean,) * prior.dimensions,
        covariance=tuple(tuple(prior.sd**2 if i == j else 0.0 for j in indices) for i in indices),
        n=0,
        prior_mean=prior.mean,
        prior_sd=prior.sd,
        noise_sd=posterior.noise_sd,
        noise_source=posterior.noise_source,
    )
    return before, posterior


def _overall(beliefs: Sequence[_Belief], draws: Iterable[DrawnContext] | None, level: float) -> ContextSummary | None:
    if draws is None:
        dimensions = len(beliefs[0][1].mu)
        if dimensions > 1:
            raise ValueError(f"draws must be given for arms with {dimensions} coefficients; () while there are none")
        latents = [(latent_at(before, (1.0,)), latent_at(after, (1.0,))) for before, after in beliefs]
        return _summary(beliefs, latents, level, None)
    contexts = Contexts.of(draws)
    if contexts is None:
        return None
    latents = [(latent_over(before, contexts), latent_over(after, contexts)) for before, after in beliefs]
    return _summary(beliefs, latents, level, None)


def _summary(
    beliefs: Sequence[_Belief],
    latents: Sequence[tuple[Latent, Latent]],
    level: float,
    context: tuple[float, ...] | None,
) -> ContextSummary:
    comparable = all(after.is_finite for _, after in latents)
    compared = standing_of([after for _, after in latents]) if comparable else None
    arms = []
    for index, ((before, after), (_, posterior)) in enumerate(zip(latents, beliefs, strict=True)):
        arms.append(
            ArmSummary(
                prior=predict(before, noise_sd=posterior.noise_sd, level=level),
                posterior=predict(after, noise_sd=posterior.noise_sd, level=level),
                p_best=compared.p_best[index] if compared else None,
                expected_loss=compared.expected_loss[index] if compared else None,
                reason=posterior.reason if compared else _BEYOND_RANGE,
            )
        )
    return ContextSummary(context=context, arms=tuple(arms))


def _rates(arms: Sequence[ArmBelief], level: float) -> ContextSummary:
    compared = standing([arm.posterior for arm in arms], (1.0,))
    summaries = []
    for index, arm in enumerate(arms):
        if not (isinstance(arm.prior, BetaPrior) and isinstance(arm.posterior, BetaPosterior)):
            raise ValueError("Beta and normal arms cannot be mixed")
        before = BetaPosterior(alpha=arm.prior.alpha, beta=arm.prior.beta, n=0)
        summaries.append(
            ArmSummary(
                prior=predict_rate(before, level=level),
                posterior=predict_rate(arm.posterior, level=level),
                p_best=compared.p_best[index],
                expected_loss=compared.expected_loss[index],
            )
        )
    return ContextSummary(context=None, arms=tuple(summaries))
