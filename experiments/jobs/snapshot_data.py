"""An analysis as the JSON that a snapshot stores: plain values, null where there is no number, and a schema version.

Besides the results themselves there are the flat keys that readers of the older format know (estimate, p_value, …).
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from experiments.jobs.bandit import BanditAnalysis
from experiments.jobs.definition import ArmDefinition, Definition
from experiments.jobs.frequentist import FrequentistAnalysis, MetricAnalysis
from experiments.stats.posterior import BetaPosterior, NormalPosterior
from experiments.stats.predictions import Prediction
from experiments.stats.results import ArmResult

SCHEMA_VERSION = 1
# Goes up when the same data would give other numbers.
FREQUENTIST_VERSION = 1
BANDIT_VERSION = 1


def of_frequentist(definition: Definition, analysis: FrequentistAnalysis, *, at: datetime) -> dict[str, Any]:
    """``at`` is when the warehouse was read."""
    counts = analysis.counts
    return {
        "schema_version": SCHEMA_VERSION,
        "method": {
            "name": "difference_in_means",
            "version": FREQUENTIST_VERSION,
            "headline": "cr2" if definition.clustered else "welch",
            "multiple_testing": "holm",
        },
        **_experiment(definition, at),
        "alpha": definition.alpha,
        "power": definition.power,
        "counts": {
            "n_assigned": sum(counts.n_assigned),
            "n_not_in_warehouse": sum(counts.n_not_in_warehouse),
            "n_ambiguous": sum(counts.n_ambiguous),
            "n_chunks": counts.n_chunks,
            "arms": [
                {
                    "arm_id": arm.id,
                    "arm_name": arm.name,
                    "n_assigned": counts.n_assigned[arm.index],
                    "n_not_in_warehouse": counts.n_not_in_warehouse[arm.index],
                    "n_ambiguous": counts.n_ambiguous[arm.index],
                }
                for arm in definition.arms
            ],
        },
        "sample_ratio": asdict(analysis.sample_ratio),
        "metric_analyses": [_metric(definition, metric) for metric in analysis.metrics],
    }


def of_bandit(definition: Definition, analysis: BanditAnalysis, *, at: datetime) -> dict[str, Any]:
    """``at`` is when the draws were read. Contextual arms are averaged over the contexts of all draws."""
    counts = analysis.counts
    n_draws, n_outcomes = sum(arm.n_draws for arm in counts), sum(arm.n_outcomes for arm in counts)
    n_autofailed = sum(arm.n_autofailed for arm in counts)
    return {
        "schema_version": SCHEMA_VERSION,
        "method": {
            "name": "posterior",
            "version": BANDIT_VERSION,
            "prior_type": definition.prior_type,
            "reward_type": definition.reward_type,
            "averaged_over": "contexts of all draws" if definition.contexts else None,
        },
        **_experiment(definition, at),
        "credible_level": analysis.level,
        "counts": {
            "n_draws": n_draws,
            "n_outcomes": n_outcomes,
            "n_pending": n_draws - n_outcomes,
            "n_autofailed": n_autofailed,
            "fraction_autofailed": n_autofailed / n_outcomes if n_outcomes else None,
        },
        "contexts": list(definition.contexts),
        "arm_analyses": [_bandit_arm(arm, analysis) for arm in definition.arms],
    }


def _bandit_arm(arm: ArmDefinition, analysis: BanditAnalysis) -> dict[str, Any]:
    counts, posterior = analysis.counts[arm.index], analysis.beliefs[arm.index].posterior
    overall = analysis.summary.overall
    summary = overall.arms[arm.index] if overall else None
    return {
        **_identity(arm),
        "is_baseline": arm.index == 0,
        **asdict(counts),
        "n_pending": counts.n_draws - counts.n_outcomes,
        **_parameters(posterior),
        **_prediction("prior_pred", summary.prior if summary else None),
        **_prediction("post_pred", summary.posterior if summary else None),
        "p_best": summary.p_best if summary else None,
        "expected_loss": summary.expected_loss if summary else None,
        "reason": summary.reason if summary else "there is no draw yet, so no context to average over",
    }


def _parameters(posterior: BetaPosterior | NormalPosterior) -> dict[str, Any]:
    if isinstance(posterior, BetaPosterior):
        return {"alpha": posterior.alpha, "beta": posterior.beta, "mu": None, "covariance": None, "noise": None}
    return {
        "alpha": None,
        "beta": None,
        "mu": list(posterior.mu),
        "covariance": [list(row) for row in posterior.covariance],
        "noise": {"sd": posterior.noise_sd, "source": posterior.noise_source, "df": posterior.noise_df},
    }


def _prediction(prefix: str, prediction: Prediction | None) -> dict[str, Any]:
    low, high = (prediction.ci if prediction else None) or (None, None)
    return {
        f"{prefix}_mean": prediction.mean if prediction else None,
        f"{prefix}_stdev": prediction.predictive_sd if prediction else None,
        f"{prefix}_parameter_sd": prediction.parameter_sd if prediction else None,
        f"{prefix}_ci_lower": low,
        f"{prefix}_ci_upper": high,
    }


def _experiment(definition: Definition, at: datetime) -> dict[str, Any]:
    return {
        "experiment_id": definition.id,
        "experiment_type": definition.experiment_type.value,
        "clustered": definition.clustered,
        "analyzed_at": at.isoformat(),
    }


def _metric(definition: Definition, metric: MetricAnalysis) -> dict[str, Any]:
    result = metric.result
    described = {"metric_name": metric.name, "error_code": metric.error_code, "reason": metric.reason}
    if result is None:
        return {**described, "status": "failed", "arm_analyses": [_unknown(arm) for arm in definition.arms]}
    return {
        **described,
        "status": "analyzed",
        "n_used": result.n_used,
        "n_arms_used": result.n_arms_used,
        "n_clusters": result.n_clusters,
        "df_t": result.df_t,
        "missingness": asdict(result.missingness),
        "arm_analyses": [_arm(definition.arms[arm.arm], arm) for arm in result.arms],
    }


def _arm(arm: ArmDefinition, result: ArmResult) -> dict[str, Any]:
    """The baseline has no effect; what stands in its flat keys is its own mean, as an intercept would be."""
    details = asdict(result)
    del details["arm"]
    return {**_identity(arm), **details, **_flat(result), "num_missing_values": result.n_missing}


def _flat(result: ArmResult) -> dict[str, Any]:
    mean, effect = result.arm_mean, result.effect
    numbers = dict.fromkeys(_FLAT)
    if mean is not None and mean.ci_t is not None:
        numbers["mean_ci_lower"], numbers["mean_ci_upper"] = mean.ci_t
    if result.is_baseline and mean is not None:
        numbers.update(estimate=mean.estimate, std_error=mean.std_error, t_stat=mean.statistic, p_value=mean.p_value_t)
        numbers["ci_lower"], numbers["ci_upper"] = mean.ci_t or (None, None)
    elif effect is not None:
        numbers["estimate"] = effect.estimate
        if effect.headline is not None:
            test = effect.headline
            numbers.update(std_error=test.std_error, t_stat=test.statistic, p_value=test.p_value)
            numbers["ci_lower"], numbers["ci_upper"] = test.ci or (None, None)
    return numbers


_FLAT = (
    "estimate",
    "p_value",
    "t_stat",
    "std_error",
    "ci_lower",
    "ci_upper",
    "mean_ci_lower",
    "mean_ci_upper",
)


def _unknown(arm: ArmDefinition) -> dict[str, Any]:
    return {
        **_identity(arm),
        "is_baseline": arm.index == 0,
        "status": "failed",
        **dict.fromkeys(_FLAT),
        "num_missing_values": None,
    }


def _identity(arm: ArmDefinition) -> dict[str, Any]:
    return {"arm_id": arm.id, "arm_name": arm.name, "arm_position": arm.index + 1}
