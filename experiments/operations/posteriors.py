"""Posteriors of a bandit's arms: from the exact sums on ``arms`` (or the counts by context) into the cached columns.

Each is a pure function of the arm's initial prior and all its outcomes; what is stored is a cache of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import transaction

from experiments.errors import InvalidInput, NotFound
from experiments.kinds import ExperimentType, PriorType, RewardType
from experiments.models import Context, Experiment
from experiments.operations import draw_rows
from experiments.operations.draw_rows import ArmRow, CountRow, SumsRow
from experiments.stats.gaussian_sums import GaussianSums
from experiments.stats.laplace import ContextCount, logistic_posterior
from experiments.stats.noise import Noise, NoiseSource, noise_of
from experiments.stats.posterior import (
    BetaPosterior,
    NormalPosterior,
    Posterior,
    beta_posterior,
    gaussian_posterior,
)
from experiments.stats.priors import BetaPrior, NormalPrior


@dataclass(frozen=True, kw_only=True)
class Model:
    """What an experiment believes of rewards. ``contexts`` is their number, 0 without."""

    experiment_id: str
    experiment_type: ExperimentType
    prior_type: PriorType
    reward_type: RewardType
    noise_sd: float | None
    contexts: int

    @property
    def is_beta(self) -> bool:
        return self.prior_type is PriorType.BETA

    @property
    def is_logistic(self) -> bool:
        return not self.is_beta and self.reward_type is RewardType.BINARY

    @property
    def shares_noise(self) -> bool:
        """One arm's outcomes change the noise that is estimated for all arms, and so their posteriors."""
        return self.reward_type is RewardType.REAL_VALUED and self.noise_sd is None

    @property
    def counts_by_context(self) -> bool:
        """Sums do not suffice: a logistic posterior needs the outcomes at each distinct context."""
        return self.is_logistic and self.contexts > 0


def model_of(experiment: Experiment) -> Model:
    """Raises ``InvalidInput`` for an experiment that is no bandit."""
    kind = ExperimentType(experiment.experiment_type)
    if not kind.is_bandit:
        raise InvalidInput(f"{experiment.id} is no bandit: it has no draws", field="experiment_id", code="no_bandit")
    return Model(
        experiment_id=experiment.id,
        experiment_type=kind,
        prior_type=PriorType(experiment.prior_type or ""),
        reward_type=RewardType(experiment.reward_type or ""),
        noise_sd=experiment.noise_sd,
        contexts=Context.objects.filter(experiment=experiment).count() if kind.has_contexts else 0,
    )


def posteriors_of(
    model: Model, arms: Sequence[ArmRow], sums: Mapping[str, SumsRow], counts: Sequence[CountRow] = ()
) -> dict[str, Posterior]:
    """By arm id, of the arms given: all arms where the noise is shared. ``sums`` is what the arms' outcomes sum up to;
    ``counts`` are needed for ``counts_by_context`` only.

    Raises ``InvalidInput`` when a result lies beyond the range of double precision.
    """
    try:
        if model.is_beta:
            return {arm.id: _beta(arm, sums.get(arm.id)) for arm in arms}
        if model.is_logistic:
            by_arm: dict[str, list[ContextCount]] = {}
            for count in counts:
                by_arm.setdefault(count.arm_id, []).append(
                    ContextCount(x=tuple(count.context), successes=count.successes, failures=count.failures)
                )
            return {arm.id: _logistic(model, arm, sums.get(arm.id), by_arm.get(arm.id, [])) for arm in arms}
        gaussian = {arm.id: _gaussian_sums(model, sums.get(arm.id)) for arm in arms}
        noise = noise_of(model.noise_sd, list(gaussian.values()))
        return {arm.id: gaussian_posterior(_normal_prior(model, arm), gaussian[arm.id], noise=noise) for arm in arms}
    except (OverflowError, ArithmeticError, ValueError) as error:
        raise InvalidInput(
            f"the posteriors of {model.experiment_id} cannot be computed: {error}", field="outcome", code="out_of_range"
        ) from error


def current_posteriors(model: Model, arms: Sequence[ArmRow]) -> list[Posterior]:
    """For drawing: of all arms in the order given, without a look at the draws.

    From the sums, which are right whoever wrote the outcomes; with contexts, where that would take longer than a draw
    may, from the cached columns.
    """
    sums = {arm.id: arm.sums for arm in arms}
    if not model.contexts:
        posteriors = posteriors_of(model, arms, sums)
        return [posteriors[arm.id] for arm in arms]
    if model.is_logistic:
        noise = Noise(sd=None, source=NoiseSource.BINARY)
    else:
        noise = noise_of(model.noise_sd, [_gaussian_sums(model, sums[arm.id]) for arm in arms])
    return [_cached(model, arm, noise) for arm in arms]


def columns_of(posterior: Posterior) -> dict[str, Any]:
    """The four cached columns, of ``arms`` and (with ``current_``) of ``draws``."""
    match posterior:
        case BetaPosterior():
            return {"alpha": posterior.alpha, "beta": posterior.beta, "mu": None, "covariance": None}
        case NormalPosterior():
            covariance = [list(row) for row in posterior.covariance]
            return {"alpha": None, "beta": None, "mu": list(posterior.mu), "covariance": covariance}


@dataclass(frozen=True, kw_only=True)
class Recomputed:
    """``changed`` names the arms whose cached columns or sums were not what the draws say."""

    arms: int
    changed: tuple[str, ...]


def recompute_posteriors(experiment_id: str) -> Recomputed:
    """Sums and posteriors of all arms from all draws, whatever the columns said before.

    Raises ``NotFound``, and ``InvalidInput`` for an experiment that is no bandit.
    """
    with transaction.atomic():
        experiment = Experiment.objects.filter(pk=experiment_id).first()
        if experiment is None:
            raise NotFound(f"there is no experiment {experiment_id!r}", field="experiment_id")
        model = model_of(experiment)
        arms = draw_rows.lock_arms(experiment_id)
        sums = draw_rows.sums_of_draws(arms, experiment_id)
        counts = draw_rows.counts_of_draws(arms, experiment_id) if model.counts_by_context else []
        posteriors = posteriors_of(model, arms, sums, counts)
        changed = []
        for arm in arms:
            found = sums.get(arm.id, SumsRow.empty(arm.id))
            columns = columns_of(posteriors[arm.id])
            if not arm.holds(found, columns):
                draw_rows.write_arm(arm.id, columns, found)
                changed.append(arm.id)
        return Recomputed(arms=len(arms), changed=tuple(changed))


def _beta(arm: ArmRow, sums: SumsRow | None) -> BetaPosterior:
    if arm.alpha_init is None or arm.beta_init is None:
        raise ValueError(f"{arm.id} has no beta prior")
    n, successes = (sums.n, int(sums.sum_y)) if sums else (0, 0)
    prior = BetaPrior(alpha=arm.alpha_init, beta=arm.beta_init)
    return beta_posterior(prior, successes=successes, failures=n - successes)


def _logistic(model: Model, arm: ArmRow, sums: SumsRow | None, counts: Sequence[ContextCount]) -> NormalPosterior:
    prior = _normal_prior(model, arm)
    if model.contexts:
        return logistic_posterior(prior, counts)
    n, successes = (sums.n, int(sums.sum_y)) if sums else (0, 0)
    return logistic_posterior(prior, [ContextCount(x=(1.0,), successes=successes, failures=n - successes)])


def _gaussian_sums(model: Model, sums: SumsRow | None) -> GaussianSums:
    if sums is None or sums.n == 0:
        return GaussianSums.empty(model.contexts or 1)
    if model.contexts:
        none: Sequence[Decimal] = ()
        return GaussianSums.with_contexts(
            n=sums.n, sum_xx=sums.sum_xx or none, sum_xy=sums.sum_xy or none, sum_yy=sums.sum_yy
        )
    return GaussianSums.without_contexts(n=sums.n, sum_y=sums.sum_y, sum_yy=sums.sum_yy)


def _cached(model: Model, arm: ArmRow, noise: Noise) -> NormalPosterior:
    prior = _normal_prior(model, arm)
    mu, covariance = arm.mu, arm.covariance
    if mu is None or covariance is None:
        size = range(prior.dimensions)
        mu = [prior.mean for _ in size]
        covariance = [[prior.sd**2 if i == j else 0.0 for j in size] for i in size]
    return NormalPosterior(
        mu=tuple(mu),
        covariance=tuple(tuple(row) for row in covariance),
        n=arm.n,
        prior_mean=prior.mean,
        prior_sd=prior.sd,
        noise_sd=noise.sd,
        noise_source=noise.source,
        noise_df=noise.df,
        reason=noise.reason,
    )


def _normal_prior(model: Model, arm: ArmRow) -> NormalPrior:
    if arm.mu_init is None or arm.sigma_init is None:
        raise ValueError(f"{arm.id} has no normal prior")
    return NormalPrior(mean=arm.mu_init, sd=arm.sigma_init, dimensions=model.contexts or 1)
