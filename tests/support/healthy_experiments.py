"""Experiments of each type with participants, outcomes, snapshots and runs, as operations and jobs leave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models.functions import Now

from experiments.kinds import ExperimentType, Job, PriorType, RewardType
from experiments.models import ArmAssignment, Draw, Experiment, JobRun, RunStatus, Snapshot
from experiments.operations.record import record_outcomes
from tests.support.experiments import arms_of, make_datasource, make_experiment

_NORMAL = {"prior_type": PriorType.NORMAL.value}
_KINDS: Mapping[str, tuple[ExperimentType, Mapping[str, Any]]] = {
    "freq_preassigned": (ExperimentType.FREQ_PREASSIGNED, {}),
    "freq_online": (ExperimentType.FREQ_ONLINE, {}),
    "clustered": (ExperimentType.FREQ_ONLINE, {"clustered": True}),
    "beta": (ExperimentType.MAB_ONLINE, {"enable_autofail": True}),
    "dwh": (ExperimentType.MAB_ONLINE_DWH, {}),
    "logistic": (ExperimentType.MAB_ONLINE, {**_NORMAL, "reward_type": RewardType.BINARY.value}),
    "gaussian": (ExperimentType.MAB_ONLINE, {**_NORMAL, "reward_type": RewardType.REAL_VALUED.value}),
    "linear": (ExperimentType.CMAB_ONLINE, {}),
    "contextual": (ExperimentType.CMAB_ONLINE, {"reward_type": RewardType.BINARY.value}),
}


@dataclass(frozen=True, kw_only=True)
class Healthy:
    """By a name for each kind."""

    experiments: Mapping[str, Experiment] = field(default_factory=dict)

    def __getitem__(self, kind: str) -> Experiment:
        return self.experiments[kind]

    def arm(self, kind: str, position: int = 1) -> str:
        return arms_of(self[kind])[position - 1].id


def healthy_experiments(*, participants: int = 12) -> Healthy:
    datasource = make_datasource()
    made = {
        name: make_experiment(experiment_type, datasource=datasource, **values)
        for name, (experiment_type, values) in _KINDS.items()
    }
    for name, experiment in made.items():
        if experiment.prior_type is None:
            _assign(experiment, participants)
        else:
            _draw(experiment, participants, contexts=3 if name in ("linear", "contextual") else 0)
        _upkeep(experiment)
    return Healthy(experiments=made)


def _assign(experiment: Experiment, participants: int) -> None:
    arms = arms_of(experiment)
    ArmAssignment.objects.bulk_create(
        ArmAssignment(
            experiment=experiment,
            participant_id=f"p{n}",
            arm=arms[n % 2],
            cluster_id=f"c{n % 3}" if experiment.clustered else None,
        )
        for n in range(participants)
    )


def _draw(experiment: Experiment, participants: int, *, contexts: int) -> None:
    """A quarter wait for their outcomes, two had their time up."""
    arms = arms_of(experiment)
    Draw.objects.bulk_create(
        Draw(
            experiment=experiment,
            participant_id=f"p{n}",
            arm=arms[n % 2],
            context_vals=[1.0, float(n % 3), 0.5 * (n % 2)] if contexts else None,
        )
        for n in range(participants)
    )
    is_binary = experiment.reward_type == RewardType.BINARY
    known = [n for n in range(participants) if n % 4]
    outcomes = {f"p{n}": float(n // 2 % 2) if is_binary else 0.25 * n - 1 for n in known}
    expired = dict.fromkeys(list(outcomes)[:2], 0)
    record_outcomes(experiment.id, expired, autofailed=True)
    record_outcomes(experiment.id, {who: outcome for who, outcome in outcomes.items() if who not in expired})


def _upkeep(experiment: Experiment) -> None:
    begun = datetime.now(UTC) - timedelta(minutes=30)
    for job in Job:
        if not job.applies_to(ExperimentType(experiment.experiment_type)):
            continue
        done = JobRun.objects.create(
            experiment=experiment, job=job, started_at=begun, lease_until=begun + timedelta(hours=1), worker_id="w"
        )
        JobRun.objects.filter(pk=done.pk).update(status=RunStatus.SUCCESS, finished_at=Now(), lease_until=None)
        if job is Job.SNAPSHOT:
            Snapshot.objects.create(experiment=experiment, status="success", data={"schema_version": 1}, run=done)
            Snapshot.objects.create(experiment=experiment, status="failed", message="the warehouse is away")
            Snapshot.objects.create(experiment=experiment)
