"""The schedule as people see it, and jobs that they run by hand."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import override_settings

from experiments.jobs.run import JobFunction, Outcome, Run
from experiments.kinds import ExperimentState, ExperimentType, Job
from experiments.models import Draw, Experiment, JobRun
from experiments.scheduler.ledger import NewRun, open_runs
from taskqueue.database import Database
from tests.support.experiments import arms_of, make_experiment
from tests.support.job_workers import always

pytestmark = pytest.mark.django_db(transaction=True)

JOBS: dict[Job, JobFunction] = {}


@pytest.fixture(autouse=True)
def _jobs_of_this_file() -> Iterator[None]:
    with override_settings(EXPERIMENTS={**settings.EXPERIMENTS, "JOBS": f"{__name__}.JOBS"}):
        yield
    JOBS.clear()


def _shown(*words: str) -> str:
    out = io.StringIO()
    call_command("show_schedule", *words, stdout=out)
    return out.getvalue()


def _json(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _shown("--json", *words).splitlines()]


def _ended(experiment: Experiment, status: str, *, job: Job = Job.SNAPSHOT, message: str | None = None) -> JobRun:
    ended = datetime.now(UTC) - timedelta(minutes=1)
    return JobRun.objects.create(
        experiment=experiment,
        job=job.value,
        status=status,
        started_at=ended - timedelta(seconds=4),
        finished_at=ended,
        message=message,
    )


def test_without_experiments_the_schedule_says_so() -> None:
    make_experiment(ExperimentType.FREQ_ONLINE, state=ExperimentState.ASSIGNED)
    assert _shown() == "No experiment is committed, so nothing is scheduled.\n"
    assert _json() == []


def test_the_schedule_tells_the_last_run_and_the_next_with_their_reasons() -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE_DWH, name="Colours")
    run = _ended(experiment, "failed", message="column_missing: there is no column revenue")

    snapshot, _, pull, pulled = _shown().splitlines()[1:]

    assert f"{experiment.id} 'Colours': mab_online_dwh, committed" in _shown()
    assert snapshot.split()[:3] == ["snapshot", "next:", "at"]
    assert "it failed once in a row and waits before it tries again" in snapshot
    assert f"(run {run.id}): column_missing: there is no column revenue" in _shown()
    assert "after 4.0 s" in _shown()
    assert pull.endswith("next: never as things stand: no draw waits for an outcome")
    assert pulled.endswith("last: it never ran")


def test_the_schedule_of_one_experiment_is_shown_in_any_state() -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE, state=ExperimentState.ABANDONED)
    make_experiment(ExperimentType.FREQ_ONLINE)

    (found,) = _json("--experiment", experiment.id)

    assert found["experiment_id"] == experiment.id
    (job,) = found["jobs"]
    assert (job["due_at"], job["reason"]) == (None, "the experiment is abandoned, not committed")
    with pytest.raises(CommandError, match="there is no experiment exp_none"):
        _shown("--experiment", "exp_none")


def test_the_schedule_for_programs_has_each_job_of_the_type() -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE, enable_autofail=True)
    drawn = datetime.now(UTC) - timedelta(hours=30)
    Draw.objects.create(experiment=experiment, arm=arms_of(experiment)[0], participant_id="p", created_at=drawn)
    run = _ended(experiment, "success")

    (found,) = _json()

    snapshot, autofail = found["jobs"]
    assert (snapshot["job"], snapshot["is_due"], snapshot["last_run"]["id"]) == ("snapshot", False, run.id)
    assert snapshot["due_at"] == (run.started_at + timedelta(hours=3)).isoformat()
    assert (autofail["job"], autofail["is_due"], autofail["last_run"]) == ("autofail", True, None)
    assert autofail["due_at"] == (drawn + timedelta(hours=24)).isoformat()


def test_what_runs_now_is_told_and_what_waits_for_it() -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE, enable_autofail=True)
    long_ago = datetime.now(UTC) - timedelta(hours=30)
    Draw.objects.create(experiment=experiment, arm=arms_of(experiment)[0], participant_id="p", created_at=long_ago)
    with closing(Database().open("test")) as connection:
        new = NewRun(experiment_id=experiment.id, job=Job.SNAPSHOT)
        open_runs(connection, [new], worker_id="worker-b", lease_seconds=60)

    shown = _shown()

    assert f"on worker-b (run {new.id})" in shown
    assert "it waits for the end of snapshot, which runs now" in shown


def test_a_job_by_hand_runs_although_it_is_not_due() -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE)
    _ended(experiment, "success")
    JOBS.update(always(lambda run: Outcome(message="all well", counts={"metrics": 2})))
    out = io.StringIO()

    call_command("run_job", "snapshot", experiment.id, stdout=out)

    assert out.getvalue() == "done; metrics 2; all well\n"
    assert list(JobRun.objects.values_list("status", flat=True)) == ["success", "success"]


def test_a_job_by_hand_that_fails_says_why() -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE)

    def fail(run: Run) -> Outcome:
        raise ValueError("the warehouse is on fire")

    JOBS.update(always(fail))
    with pytest.raises(CommandError, match="failed: ValueError: the warehouse is on fire"):
        call_command("run_job", "snapshot", experiment.id)

    assert JobRun.objects.get().status == "failed"


@pytest.mark.parametrize(
    ("job", "state", "reason"),
    [
        ("dwh_pull", ExperimentState.COMMITTED, r"dwh_pull is not for experiments of type freq_online \[wrong_type\]"),
        ("snapshot", ExperimentState.ASSIGNED, r"the experiment is assigned, not committed \[not_committed\]"),
    ],
)
def test_a_job_by_hand_that_makes_no_sense_is_refused(job: str, state: ExperimentState, reason: str) -> None:
    JOBS.update(always(lambda run: Outcome()))
    with pytest.raises(CommandError, match=reason):
        call_command("run_job", job, make_experiment(ExperimentType.FREQ_ONLINE, state=state).id)
    with pytest.raises(CommandError, match=r"there is no experiment exp_none \[not_found\]"):
        call_command("run_job", job, "exp_none")
    assert not JobRun.objects.exists()


def test_a_job_by_hand_waits_for_no_other_but_says_who_runs() -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    JOBS.update(always(lambda run: Outcome()))
    with closing(Database().open("test")) as connection:
        new = NewRun(experiment_id=experiment.id, job=Job.AUTOFAIL)
        open_runs(connection, [new], worker_id="worker-b", lease_seconds=60)

        with pytest.raises(
            CommandError, match=rf"autofail runs since .* on worker worker-b \(run {new.id}\).*\[busy\]"
        ):
            call_command("run_job", "snapshot", experiment.id)

        connection.execute("UPDATE job_runs SET lease_until = now() - interval '1 s'")
        call_command("run_job", "snapshot", experiment.id, stdout=io.StringIO())

    assert set(JobRun.objects.values_list("job", "status")) == {("autofail", "lost"), ("snapshot", "success")}


def test_a_job_by_hand_that_was_taken_for_lost_is_refused() -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)

    def lose(run: Run) -> Outcome:
        ended = {"status": "lost", "finished_at": datetime.now(UTC), "lease_until": None}
        JobRun.objects.filter(pk=run.id).update(**ended)
        return Outcome()

    JOBS.update(always(lose))
    with pytest.raises(CommandError, match=r"\[lost\]"):
        call_command("run_job", "snapshot", experiment.id)


def test_a_job_that_no_function_does_is_refused() -> None:
    with pytest.raises(CommandError, match="no function does snapshot"):
        call_command("run_job", "snapshot", "exp_any")
