"""Organizations, datasources and experiments of each type, each with all its parts and every value overridable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from experiments.kinds import ExperimentState, ExperimentType, FieldUse, PriorType, RewardType
from experiments.models import Arm, Context, Datasource, Experiment, ExperimentField, Organization

_SOME_PRIORS: Mapping[PriorType, Mapping[str, float]] = {
    PriorType.BETA: {"alpha_init": 1.0, "beta_init": 1.0},
    PriorType.NORMAL: {"mu_init": 0.0, "sigma_init": 2.0},
}


def make_organization(**fields: Any) -> Organization:
    return Organization.objects.create(**{"name": "Acme", **fields})


def make_datasource(**fields: Any) -> Datasource:
    organization = fields.pop("organization", None) or make_organization()
    return Datasource.objects.create(**{"name": "warehouse", "organization": organization, **fields})


def make_experiment(
    experiment_type: ExperimentType,
    *,
    arms: int | Sequence[Mapping[str, Any]] = 2,
    contexts: int | None = None,
    metrics: Sequence[str] = ("revenue",),
    unique_id: str = "id",
    state: ExperimentState = ExperimentState.COMMITTED,
    **fields: Any,
) -> Experiment:
    """An experiment that runs since yesterday and for a month, committed unless ``state`` says otherwise.

    Bandits have beta priors and binary rewards, contextual ones normal priors and real-valued rewards.
    ``arms`` is their number, or the fields of each that differ from the usual ones.
    """
    now = datetime.now(UTC)
    usual: dict[str, Any] = {
        "experiment_type": experiment_type.value,
        "start_date": now - timedelta(days=1),
        "end_date": now + timedelta(days=30),
    }
    if experiment_type.reads_warehouse:
        usual["datasource_table"] = "participants"
    if experiment_type.is_bandit:
        contextual = experiment_type.has_contexts
        usual["prior_type"] = (PriorType.NORMAL if contextual else PriorType.BETA).value
        usual["reward_type"] = (RewardType.REAL_VALUED if contextual else RewardType.BINARY).value
    row = {**usual, **fields}
    experiment = Experiment.objects.create(datasource=row.pop("datasource", None) or make_datasource(), **row)
    prior = _SOME_PRIORS[PriorType(row["prior_type"])] if row.get("prior_type") else {}
    given = [{} for _ in range(arms)] if isinstance(arms, int) else arms
    for position, arm in enumerate(given, start=1):
        Arm.objects.create(
            **{"experiment": experiment, "position": position, "name": f"arm {position}", **prior, **arm}
        )
    if contexts is None:
        contexts = 3 if experiment_type.has_contexts else 0
    for position in range(1, contexts + 1):
        Context.objects.create(experiment=experiment, position=position, name=f"context {position}")
    if experiment_type.reads_warehouse:
        ExperimentField.objects.create(experiment=experiment, field_name=unique_id, use=FieldUse.UNIQUE_ID.value)
        for position, metric in enumerate(metrics, start=1):
            ExperimentField.objects.create(
                experiment=experiment, field_name=metric, use=FieldUse.METRIC.value, position=position
            )
    for step in {ExperimentState.ASSIGNED: (), ExperimentState.COMMITTED: (state,)}.get(
        state, (ExperimentState.COMMITTED, state)
    ):
        Experiment.objects.filter(pk=experiment.pk).update(state=step.value)
    experiment.refresh_from_db()
    return experiment


def arms_of(experiment: Experiment) -> list[Arm]:
    """By position, the baseline first."""
    return list(Arm.objects.filter(experiment=experiment).order_by("position"))
