"""The analysis of a bandit: what its draws and their outcomes say, from our tables alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from django.db import connection

from experiments.jobs.definition import ArmDefinition, Definition
from experiments.jobs.reading import one_view
from experiments.models import Experiment
from experiments.operations import draw_rows
from experiments.operations.posteriors import Model, model_of, posteriors_of
from experiments.stats.averages import DrawnContext
from experiments.stats.posterior import Prior
from experiments.stats.priors import BetaPrior, NormalPrior
from experiments.stats.summary import ArmBelief, BanditSummary, summarize

_DRAWS = """
    SELECT arm_id, count(*), count(outcome), count(*) FILTER (WHERE autofailed_outcome)
    FROM draws WHERE experiment_id = %s GROUP BY arm_id
"""
_CONTEXTS = """
    SELECT context_vals, count(*) FROM draws WHERE experiment_id = %s AND context_vals IS NOT NULL GROUP BY context_vals
"""
# Digits beyond those of doubles are kept, so that the order of the draws does not matter.
_CONTEXT_SUMS = """
    SELECT place, sum(value::text::numeric), count(*)
    FROM draws, unnest(context_vals) WITH ORDINALITY AS context (value, place)
    WHERE experiment_id = %s GROUP BY place ORDER BY place
"""


@dataclass(frozen=True, kw_only=True)
class ArmCounts:
    """Of draws. Those that failed because their time was up count among the outcomes."""

    n_draws: int = 0
    n_outcomes: int = 0
    n_autofailed: int = 0


@dataclass(frozen=True, kw_only=True)
class BanditAnalysis:
    """By arm, in the order of positions."""

    level: float
    counts: tuple[ArmCounts, ...]
    beliefs: tuple[ArmBelief, ...]
    summary: BanditSummary


def analyze(definition: Definition) -> BanditAnalysis:
    """Posteriors are computed from all draws, not from the cache on arms. The quadrature runs without a transaction.

    Raises ``InvalidInput`` when a posterior lies beyond the range of double precision.
    """
    with one_view():
        model = model_of(Experiment.objects.get(pk=definition.id))
        arms = draw_rows.read_arms(definition.id)
        sums = draw_rows.sums_of_draws(arms, definition.id)
        by_context = draw_rows.counts_of_draws(arms, definition.id) if model.counts_by_context else []
        counts = _counts(definition)
        contexts = _contexts(definition, model)
    posteriors = posteriors_of(model, arms, sums, by_context)
    beliefs = tuple(ArmBelief(prior=_prior(arm, model), posterior=posteriors[arm.id]) for arm in definition.arms)
    level = 1 - definition.alpha
    return BanditAnalysis(
        level=level, counts=counts, beliefs=beliefs, summary=summarize(beliefs, level=level, draws=contexts)
    )


def _counts(definition: Definition) -> tuple[ArmCounts, ...]:
    with connection.cursor() as cursor:
        cursor.execute(_DRAWS, [definition.id])
        found = {
            arm: ArmCounts(n_draws=draws, n_outcomes=outcomes, n_autofailed=autofailed)
            for arm, draws, outcomes, autofailed in cursor.fetchall()
        }
    return tuple(found.get(arm.id, ArmCounts()) for arm in definition.arms)


def _contexts(definition: Definition, model: Model) -> list[DrawnContext] | None:
    """What the average over draws needs: a linear model has the same average at the mean context."""
    if not model.contexts:
        return None
    with connection.cursor() as cursor:
        if model.is_logistic:
            cursor.execute(_CONTEXTS, [definition.id])
            return [DrawnContext(x=tuple(values), n=n) for values, n in cursor.fetchall()]
        cursor.execute(_CONTEXT_SUMS, [definition.id])
        rows = cursor.fetchall()
        if not rows:
            return []
        return [DrawnContext(x=tuple(float(Fraction(total) / n) for _, total, n in rows), n=rows[0][2])]


def _prior(arm: ArmDefinition, model: Model) -> Prior:
    """The database lets no experiment be committed whose arms lack these."""
    if model.is_beta:
        return BetaPrior(alpha=arm.alpha_init or 0.0, beta=arm.beta_init or 0.0)
    return NormalPrior(mean=arm.mu_init or 0.0, sd=arm.sigma_init or 0.0, dimensions=model.contexts or 1)
