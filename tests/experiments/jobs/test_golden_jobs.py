"""The reference cases of bandits through the jobs: outcomes that a pull fetches, and draws that autofail fills in."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from experiments.jobs import autofail, outcome_pull
from experiments.jobs.autofail import fail_expired
from experiments.jobs.outcome_pull import pull_outcomes
from experiments.jobs.sessions import Sessions
from experiments.kinds import ExperimentType, Job
from experiments.models import Arm, Draw, Experiment
from experiments.operations.posteriors import recompute_posteriors
from experiments.operations.record import record_outcomes
from tests.support.golden import Case, assert_close
from tests.support.golden_bandits import cases, experiment_of
from tests.support.job_runs import open_run
from tests.support.warehouses import DuckDBFile

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("case", [case for case in cases() if "contexts" not in case.inputs], ids=str)
def test_a_pull_gives_the_reference_posterior(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_pull, "BATCH", _quarter(case))
    experiment = experiment_of(_of_type(case, ExperimentType.MAB_ONLINE_DWH))
    file = DuckDBFile(tmp_path)
    outcomes = _outcomes(case)
    file.create("participants", {"id": "TEXT", "revenue": "DOUBLE"}, outcomes.items())

    outcome = pull_outcomes(open_run(experiment, Job.DWH_PULL), sessions=Sessions(lambda _: file.open()))

    assert (outcome.counts["recorded"], outcome.message) == (len(outcomes), None)
    _assert_posteriors(case, experiment)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_autofail_gives_the_reference_posterior(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever of the reference has the most frequent outcome has it since nothing else came."""
    batch = _quarter(case)
    monkeypatch.setattr(autofail, "BATCH", batch)
    kind = ExperimentType.CMAB_ONLINE if "contexts" in case.inputs else ExperimentType.MAB_ONLINE
    experiment = experiment_of(_of_type(case, kind))
    outcomes = _outcomes(case)
    value = Counter(outcomes.values()).most_common(1)[0][0] if outcomes else 0.0
    late = [participant for participant, outcome in outcomes.items() if outcome == value]
    Draw.objects.filter(experiment=experiment, participant_id__in=late).update(
        created_at=timezone.now() - timedelta(hours=30)
    )
    Experiment.objects.filter(pk=experiment.pk).update(enable_autofail=True, autofail_outcome_value=value)
    record_outcomes(experiment.id, {name: outcome for name, outcome in outcomes.items() if outcome != value})

    counts = fail_expired(open_run(experiment, Job.AUTOFAIL)).counts

    assert counts == {"failed": len(late), "kept": 0, "batches": -(-len(late) // batch)}
    _assert_posteriors(case, experiment)


def _of_type(case: Case, kind: ExperimentType) -> Case:
    return replace(case, inputs={**case.inputs, "experiment_type": kind})


def _quarter(case: Case) -> int:
    """So that there are several batches."""
    return max(len(case.inputs["draws"]) // 4, 1)


def _outcomes(case: Case) -> dict[str, float]:
    return {draw["participant_id"]: draw["outcome"] for draw in case.inputs["draws"] if draw["outcome"] is not None}


def _assert_posteriors(case: Case, experiment: Experiment) -> None:
    arms = list(Arm.objects.filter(experiment=experiment))
    for arm in arms:
        _assert_trajectory_ends_at(arm)
    # What no outcome touched is the prior, which only a recomputation writes down.
    assert set(recompute_posteriors(experiment.id).changed) == {
        arm.id for arm in arms if arm.alpha is None and arm.mu is None
    }
    for arm in Arm.objects.filter(experiment=experiment):
        expected: dict[str, Any] = case.expected["arms"][arm.name]
        assert arm.n_outcomes == expected["n_outcomes"]
        for name in {"alpha", "beta", "mu", "covariance"} & set(expected):
            assert_close(case, getattr(arm, name), expected[name], what=f"{arm.name}.{name}")


def _assert_trajectory_ends_at(arm: Arm) -> None:
    """One of the arm's draws has the posterior that the arm has, and all that have an outcome have some."""
    draws = list(Draw.objects.filter(arm=arm, outcome__isnull=False))
    names = ("alpha", "beta", "mu", "covariance")
    trajectory = [[getattr(draw, f"current_{name}") for name in names] for draw in draws]
    assert all(any(value is not None for value in point) for point in trajectory)
    assert not draws or [getattr(arm, name) for name in names] in trajectory
