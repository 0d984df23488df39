"""What the database refuses of snapshots and job runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from experiments.kinds import ExperimentType
from experiments.models import JobRun, Snapshot
from tests.support.experiments import make_experiment
from tests.support.refusals import refused_by

pytestmark = pytest.mark.django_db

_NOW = datetime(2027, 1, 1, tzinfo=UTC)
_HELD = {"lease_until": _NOW, "worker_id": "worker-a"}


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"status": "done"}, "snapshots_status_declared"),
        ({"status": "success"}, "snapshots_data_of_success"),
        ({"status": "failed", "data": {}, "message": "no"}, "snapshots_data_of_success"),
        ({"data": {}}, "snapshots_data_of_success"),
        ({"status": "failed"}, "snapshots_failed_with_message"),
    ],
)
def test_snapshots_that_make_no_sense_are_refused(fields: dict[str, Any], constraint: str) -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE)
    with refused_by(constraint):
        Snapshot.objects.create(experiment=experiment, **fields)


def test_what_a_successful_snapshot_told_never_changes() -> None:
    snapshot = Snapshot.objects.create(experiment=make_experiment(ExperimentType.FREQ_ONLINE))
    row = Snapshot.objects.filter(pk=snapshot.pk)
    row.update(status="failed", message="the warehouse was away")
    row.update(status="success", data={"n": 1}, message=None)
    with refused_by("snapshots_success_stays"):
        row.update(data={"n": 2})
    with refused_by("snapshots_success_stays"):
        row.update(status="pending", data=None)


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"job": "clean"}, "job_runs_job_declared"),
        ({"status": "open", "lease_until": None, "finished_at": _NOW}, "job_runs_status_declared"),
        ({"lease_until": None}, "job_runs_lease_while_running"),
        ({"worker_id": None}, "job_runs_lease_while_running"),
        ({"finished_at": _NOW}, "job_runs_lease_while_running"),
        ({"status": "success"}, "job_runs_lease_while_running"),
        ({"status": "success", "lease_until": None}, "job_runs_lease_while_running"),
    ],
)
def test_runs_that_make_no_sense_are_refused(fields: dict[str, Any], constraint: str) -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE)
    with refused_by(constraint):
        JobRun.objects.create(**{"experiment": experiment, "job": "snapshot", **_HELD, **fields})


def test_an_experiment_has_one_unfinished_run_of_any_job() -> None:
    experiment, other = make_experiment(ExperimentType.MAB_ONLINE), make_experiment(ExperimentType.MAB_ONLINE)
    run = JobRun.objects.create(experiment=experiment, job="snapshot", **_HELD)
    JobRun.objects.create(experiment=other, job="snapshot", **_HELD)
    with refused_by("job_runs_one_unfinished"):
        JobRun.objects.create(experiment=experiment, job="autofail", **_HELD)

    JobRun.objects.filter(pk=run.pk).update(status="lost", finished_at=_NOW, lease_until=None)
    JobRun.objects.create(experiment=experiment, job="autofail", **_HELD)
    with refused_by("job_runs_closed_once"):
        JobRun.objects.filter(pk=run.pk).update(status="success")
