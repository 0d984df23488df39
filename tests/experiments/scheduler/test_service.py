"""The scheduler's loop, look by look: what it opens, how runs end, and what it leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection as django_connection
from django.db import transaction

from experiments import events
from experiments.errors import DatasourceError
from experiments.events import CATALOGUE
from experiments.jobs.run import Outcome, Run
from experiments.kinds import ExperimentType, Job
from experiments.models import Experiment, JobRun, JobState, Snapshot
from taskqueue.database import Connection, Database
from tests.support.experiments import make_datasource, make_experiment
from tests.support.job_workers import always, do_nothing, job_worker, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

type Said = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def said() -> Iterator[Said]:
    heard: Said = []

    def hear(sender: Any, data: dict[str, Any], **_: object) -> None:
        heard.append((sender.name, data))

    for event in CATALOGUE.values():
        event.signal.connect(hear)
    yield heard
    for event in CATALOGUE.values():
        event.signal.disconnect(hear)


@pytest.fixture
def session() -> Iterator[Connection]:
    with closing(Database(name="watcher").open("test")) as connection:
        yield connection


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What jobs of a test wait for; open at the end, whatever happened."""
    gate = threading.Event()
    yield gate
    gate.set()


def _sessions_of_jobs(session: Connection) -> list[Any]:
    """Connections to this database besides this one, the test's own Django one and the scheduler's."""
    return session.execute(
        "SELECT state, query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND application_name NOT LIKE 'test worker%%' AND pid <> %s",
        [django_connection.connection.info.backend_pid],
    ).fetchall()


def test_what_is_due_runs_once_and_its_outcome_is_kept(said: Said) -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    done: list[Run] = []

    def job(run: Run) -> Outcome:
        done.append(run)
        return Outcome(message="all well", counts={"draws": 7})

    with job_worker(always(job)) as worker:
        worker.look_until_free()
        worker.look_until_free()

    run = JobRun.objects.get()
    assert [(run.id, run.job, run.experiment_id) for run in done] == [(run.id, "snapshot", experiment.id)]
    assert (run.status, run.message, run.counts, run.worker_id) == ("success", "all well", {"draws": 7}, "worker-a")
    (data,) = [data for name, data in said if name == events.RUN_SUCCEEDED.name]
    assert (data["run_id"], data["counts"], data["error_code"]) == (run.id, {"draws": 7}, None)
    # Due since its window began, a day before it started yesterday.
    assert data["late_ms"] == pytest.approx(2 * 86_400_000, rel=0.01)


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (
            DatasourceError("there is no column revenue; there are: id, spent", code="column_missing"),
            "column_missing: there is no column revenue; there are: id, spent",
            "column_missing",
        ),
        (ValueError("password=hunter2 at \x00"), "ValueError: password=*** at \ufffd", "ValueError"),
        (SystemExit(3), "SystemExit: 3", "SystemExit"),
    ],
)
def test_a_job_that_raises_leaves_a_failed_run_and_waits(
    error: BaseException, message: str, code: str, said: Said
) -> None:
    make_experiment(ExperimentType.MAB_ONLINE)

    def job(run: Run) -> Outcome:
        raise error

    with job_worker(always(job)) as worker:
        worker.look_until_free()
        worker.look_until_free()

    run = JobRun.objects.get()
    assert run.status == "failed"
    assert str(run.message).replace("…", "***").replace("[hidden]", "***") == message
    (data,) = [data for name, data in said if name == events.RUN_FAILED.name]
    assert data["error_code"] == code
    assert "hunter2" not in str(said)


@pytest.mark.parametrize("outcome", [None, {"counts": {}}, Outcome(counts={"n": float("nan")})])  # type: ignore[dict-item]
def test_an_outcome_that_is_none_is_a_failure(outcome: Any) -> None:
    make_experiment(ExperimentType.MAB_ONLINE)
    with job_worker(always(lambda run: outcome)) as worker:
        worker.look_until_free()

    assert JobRun.objects.get().status == "failed"


def test_a_failed_job_is_tried_again_after_its_backoff() -> None:
    make_experiment(ExperimentType.MAB_ONLINE)
    failing = True

    def job(run: Run) -> Outcome:
        if failing:
            raise ValueError("no")
        return Outcome()

    with job_worker(always(job)) as worker:
        worker.look_until_free()
        JobState.objects.update(failed_at=datetime.now(UTC) - timedelta(minutes=5, seconds=1))
        failing = False
        worker.scheduler.wake()
        worker.look_until_free()
        wait_until(lambda: worker.look() >= 0 and JobRun.objects.filter(status="success").exists())

    assert list(JobRun.objects.order_by("id").values_list("status", flat=True)) == ["failed", "success"]


def test_an_experiment_that_a_living_worker_works_on_is_left_alone(gate: threading.Event) -> None:
    make_experiment(ExperimentType.MAB_ONLINE)

    def job(run: Run) -> Outcome:
        gate.wait(20)
        return Outcome()

    with job_worker(always(job)) as first, job_worker(always(job), worker_id="worker-b") as second:
        first.look()
        second.look()
        assert (first.runs.held, second.runs.held) == (1, 0)
        gate.set()
        first.look_until_free()

    assert JobRun.objects.count() == 1


def test_half_of_the_slots_are_left_for_other_datasources(gate: threading.Event) -> None:
    datasource = make_datasource()
    for _ in range(4):
        make_experiment(ExperimentType.MAB_ONLINE, datasource=datasource)
    other = make_experiment(ExperimentType.MAB_ONLINE)

    def job(run: Run) -> Outcome:
        if run.experiment_id != other.id:
            gate.wait(20)
        return Outcome()

    with job_worker(always(job), slots=3) as worker:
        worker.look()
        wait_until(lambda: worker.look() >= 0 and JobRun.objects.filter(status="success").exists())
        assert worker.runs.held == 2
        assert JobRun.objects.filter(experiment=other).get().status == "success"
        gate.set()
        wait_until(lambda: worker.look() >= 0 and JobRun.objects.filter(status="success").count() == 5)


def test_a_pending_snapshot_is_served_although_one_was_just_taken() -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)

    def job(run: Run) -> Outcome:
        with run.writing():
            Snapshot.objects.filter(experiment=experiment, status="pending").update(status="success", data={})
        return Outcome()

    with job_worker(always(job)) as worker:
        worker.look_until_free()
        Snapshot.objects.create(experiment=experiment)
        wait_until(lambda: worker.look() >= 0 and JobRun.objects.filter(status="success").count() == 2)
        worker.look_until_free()

    assert Snapshot.objects.get().status == "success"


def test_a_job_past_its_time_is_told_to_stop_and_has_failed(gate: threading.Event) -> None:
    make_experiment(ExperimentType.MAB_ONLINE)

    def job(run: Run) -> Outcome:
        with run.cancellation.calling(gate.set):
            gate.wait(20)
            run.cancellation.check()
        return Outcome()

    with job_worker(always(job), job_timeout_seconds=0.01) as worker:
        worker.look()
        wait_until(lambda: worker.keeper.look() >= 0 and gate.is_set())
        worker.look_until_free()

    run = JobRun.objects.get()
    assert run.status == "failed"
    assert str(run.message).startswith("timeout: it did not end within 0.01 s (--job-timeout)")
    assert worker.runs.stuck == 0


def test_a_statement_in_our_own_database_is_cancelled_when_time_is_up(session: Connection) -> None:
    make_experiment(ExperimentType.MAB_ONLINE)

    def job(run: Run) -> Outcome:
        with run.writing(), django_connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(60)")
        return Outcome()

    with job_worker(always(job), job_timeout_seconds=0.3) as worker:
        worker.look()
        wait_until(lambda: worker.keeper.look() >= 0 and worker.runs.free == worker.runs.slots)
        worker.look_until_free()
        assert _sessions_of_jobs(session) == []

    assert str(JobRun.objects.get().message).startswith("timeout: ")


def test_a_job_that_never_stops_loses_its_run_and_all_of_them_end_the_worker(gate: threading.Event) -> None:
    make_experiment(ExperimentType.MAB_ONLINE)

    def job(run: Run) -> Outcome:
        gate.wait(30)
        return Outcome()

    with job_worker(always(job), slots=1, job_timeout_seconds=0.0, lease_seconds=0.2) as worker:
        worker.look()
        wait_until(lambda: worker.keeper.look() >= 0 and worker.runs.stuck == 1)
        worker.look_until_free()

        assert worker.said == ["all stuck"]
        assert "did not stop when it was told to" in str(JobRun.objects.get().message)
        # Its slot is not given to another run.
        make_experiment(ExperimentType.MAB_ONLINE)
        worker.look()
        assert worker.runs.held == 0
        gate.set()


def test_nothing_stays_open_after_a_run(session: Connection) -> None:
    for number in range(3):
        make_experiment(ExperimentType.MAB_ONLINE, name=str(number))

    def job(run: Run) -> Outcome:
        name = Experiment.objects.get(pk=run.experiment_id).name
        if name == "0":
            return Outcome()
        # Left in the middle of a transaction, by an error or as if all were well.
        transaction.set_autocommit(False)
        Experiment.objects.filter(pk=run.experiment_id).update(description="half done")
        if name == "1":
            raise ValueError("no")
        return Outcome()

    with job_worker(always(job)) as worker:
        wait_until(lambda: worker.look() >= 0 and not JobRun.objects.filter(status="running").exists())
        wait_until(lambda: worker.look() >= 0 and JobRun.objects.count() == 3 and worker.runs.held == 0)
        assert _sessions_of_jobs(session) == []

    assert set(Experiment.objects.values_list("description", flat=True)) == {""}


def test_releasing_gives_back_what_runs_and_tells_it_to_stop(gate: threading.Event, said: Said) -> None:
    make_experiment(ExperimentType.MAB_ONLINE)
    reasons: list[str | None] = []

    def job(run: Run) -> Outcome:
        with run.cancellation.calling(gate.set):
            gate.wait(20)
        reasons.append(run.cancellation.reason)
        return Outcome(message="too late")

    with job_worker(always(job)) as worker:
        worker.look()
        worker.scheduler.release()
        worker.look()
        wait_until(lambda: worker.look() >= 0 and worker.scheduler.drained)
        wait_until(lambda: bool(reasons))

        assert worker.scheduler.released == 1
        assert worker.said == ["drained"]
    assert reasons == ["its worker is stopping"]
    run = JobRun.objects.get()
    assert (run.status, run.message) == ("released", None)
    # Due again at once, as if it had never run.
    assert not JobState.objects.exists()
    assert [name for name, _ in said] == ["experiments.run.started", "experiments.run.released"]


def test_draining_waits_for_what_runs_and_opens_nothing_new(gate: threading.Event) -> None:
    make_experiment(ExperimentType.MAB_ONLINE)

    def job(run: Run) -> Outcome:
        gate.wait(20)
        return Outcome()

    with job_worker(always(job)) as worker:
        worker.look()
        make_experiment(ExperimentType.MAB_ONLINE)
        worker.scheduler.drain()
        worker.look()
        assert (worker.runs.held, worker.said, worker.scheduler.drained) == (1, [], False)
        gate.set()
        worker.look_until_free()
        assert (worker.said, worker.scheduler.drained) == (["drained"], True)

    assert [run.status for run in JobRun.objects.all()] == ["success"]


def test_exactly_as_many_jobs_begin_as_it_may_do() -> None:
    for _ in range(5):
        make_experiment(ExperimentType.MAB_ONLINE)
    with job_worker(always(do_nothing), slots=2, max_jobs=3) as worker:
        wait_until(lambda: worker.look() >= 0 and bool(worker.said))
        worker.look_until_free()

        assert worker.said == ["3 jobs begun (--max-jobs)"]
    assert JobRun.objects.count() == 3


def test_it_is_idle_when_nothing_is_due_and_nothing_runs(gate: threading.Event) -> None:
    make_experiment(ExperimentType.MAB_ONLINE)

    def job(run: Run) -> Outcome:
        gate.wait(20)
        return Outcome()

    with job_worker(always(job)) as worker:
        worker.look()
        worker.look()
        assert worker.said == []
        gate.set()
        worker.look_until_free()
        wait_until(lambda: worker.look() >= 0 and bool(worker.said))

        assert set(worker.said) == {"idle"}


def test_it_sleeps_until_the_next_job_is_due() -> None:
    begins = datetime.now(UTC) + timedelta(seconds=3)
    make_experiment(ExperimentType.MAB_ONLINE, start_date=begins + timedelta(days=1))
    with job_worker(always(do_nothing), poll_seconds=300.0) as worker:
        assert worker.look() == pytest.approx(3.0, abs=2.0)


def test_only_jobs_with_a_function_are_begun() -> None:
    make_experiment(ExperimentType.MAB_ONLINE)
    with job_worker({Job.AUTOFAIL: do_nothing}) as worker:
        worker.look()

    assert not JobRun.objects.exists()
