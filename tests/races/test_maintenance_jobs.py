"""Jobs beside callers and other workers at the same moment: nothing counts twice, and a lost run writes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection as django_connection

from experiments.errors import Conflict
from experiments.jobs.autofail import fail_expired
from experiments.jobs.outcome_pull import pull_outcomes
from experiments.jobs.run import JobFunction, RunLost
from experiments.jobs.sessions import Sessions
from experiments.jobs.snapshots import take_snapshot
from experiments.kinds import ExperimentType, Job
from experiments.models import Draw, Experiment, Snapshot
from experiments.operations.posteriors import recompute_posteriors
from experiments.operations.record import record_outcome
from taskqueue.database import Connection
from tests.support.experiments import arms_of, make_experiment
from tests.support.job_runs import close_run, draw, draw_many, open_run, outcomes_of
from tests.support.sessions import DEADLINE_SECONDS, Connect, wait_until_blocked
from tests.support.warehouses import DuckDBFile, PostgreSQLSchema
from tests.support.worker_process import REPOSITORY

_MAB, _DWH = ExperimentType.MAB_ONLINE, ExperimentType.MAB_ONLINE_DWH


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def server(transactional_db: None) -> Iterator[PostgreSQLSchema]:
    server = PostgreSQLSchema()
    yield server
    server.close()


def _elsewhere[Result](call: Callable[[], Result]) -> Callable[[], Result]:
    def run() -> Result:
        try:
            return call()
        finally:
            django_connection.close()

    return run


def _expired(**fields: Any) -> Experiment:
    experiment = make_experiment(_MAB, enable_autofail=True, **fields)
    draw(experiment, ["a", "b", "c"], hours_ago=30)
    return experiment


@contextmanager
def _arms_held(holder: Connection, experiment: Experiment) -> Iterator[None]:
    with holder.transaction():
        holder.execute("SELECT FROM arms WHERE experiment_id = %s FOR UPDATE", [experiment.id])
        yield


def test_an_outcome_that_comes_at_the_same_moment_stays_and_is_not_failed(
    connect: Connect, pool: ThreadPoolExecutor
) -> None:
    experiment = _expired()
    run = open_run(experiment, Job.AUTOFAIL)
    holder, watcher = connect(), connect()
    with _arms_held(holder, experiment):
        real = pool.submit(_elsewhere(lambda: record_outcome(experiment.id, "b", 1)))
        wait_until_blocked(watcher, count=1)
        failing = pool.submit(_elsewhere(lambda: fail_expired(run)))
        wait_until_blocked(watcher, count=2)

    assert not real.result(DEADLINE_SECONDS).replayed
    assert failing.result(DEADLINE_SECONDS).counts == {"failed": 2, "kept": 1, "batches": 1}
    kept = Draw.objects.get(participant_id="b")
    assert (kept.outcome, kept.autofailed_outcome) == (1.0, False)
    baseline = arms_of(experiment)[0]
    assert (baseline.alpha, baseline.beta) == (2.0, 3.0)
    assert recompute_posteriors(experiment.id).changed in ((), (arms_of(experiment)[1].id,))


def test_an_outcome_that_comes_after_the_failure_is_a_conflict(connect: Connect, pool: ThreadPoolExecutor) -> None:
    experiment = _expired()
    run = open_run(experiment, Job.AUTOFAIL)
    holder, watcher = connect(), connect()
    with _arms_held(holder, experiment):
        failing = pool.submit(_elsewhere(lambda: fail_expired(run)))
        wait_until_blocked(watcher, count=1)
        real = pool.submit(_elsewhere(lambda: record_outcome(experiment.id, "b", 1)))
        wait_until_blocked(watcher, count=2)

    assert failing.result(DEADLINE_SECONDS).counts["failed"] == 3
    error = real.exception(DEADLINE_SECONDS)
    assert isinstance(error, Conflict)
    assert "filled in because its time was up" in str(error)
    baseline = arms_of(experiment)[0]
    assert (baseline.alpha, baseline.beta) == (1.0, 4.0)


def test_who_closes_a_run_waits_for_its_write(connect: Connect, pool: ThreadPoolExecutor) -> None:
    experiment = _expired()
    run = open_run(experiment, Job.AUTOFAIL)
    holder, closer, watcher = connect(), connect(), connect()
    with _arms_held(holder, experiment):
        failing = pool.submit(_elsewhere(lambda: fail_expired(run)))
        wait_until_blocked(watcher, count=1)
        closing = pool.submit(closer.execute, _CLOSE, [run.id])
        wait_until_blocked(watcher, closer)

    closing.result(DEADLINE_SECONDS)
    # The batch counts; whether another look came before the close is a matter of luck, and finds nothing.
    assert failing.exception(DEADLINE_SECONDS) is None
    assert set(outcomes_of(experiment).values()) == {0.0}


_CLOSE = "UPDATE job_runs SET status = 'lost', finished_at = now(), lease_until = NULL WHERE id = %s"


@pytest.mark.parametrize("job", [Job.AUTOFAIL, Job.DWH_PULL, Job.SNAPSHOT])
def test_a_write_that_comes_after_its_run_was_closed_is_refused(
    job: Job, server: PostgreSQLSchema, connect: Connect, pool: ThreadPoolExecutor
) -> None:
    experiment = make_experiment(_DWH) if job is Job.DWH_PULL else _expired()
    if job is Job.DWH_PULL:
        draw(experiment, ["a"])
        server.create("participants", {"id": "TEXT", "revenue": "INTEGER"}, [("a", 1)])
    run = open_run(experiment, job)
    sessions = Sessions(lambda _: server.open())
    before = outcomes_of(experiment)
    closer, watcher = connect(), connect()
    with closer.transaction():
        closer.execute(_CLOSE, [run.id])
        working = pool.submit(_elsewhere(partial(_functions(sessions)[job], run)))
        wait_until_blocked(watcher)

    assert isinstance(working.exception(DEADLINE_SECONDS), RunLost)
    assert outcomes_of(experiment) == before
    assert not Snapshot.objects.exists()
    sessions.close_idle()


def _functions(sessions: Sessions) -> dict[Job, JobFunction]:
    return {
        Job.AUTOFAIL: fail_expired,
        Job.DWH_PULL: partial(pull_outcomes, sessions=sessions),
        Job.SNAPSHOT: partial(take_snapshot, sessions=sessions),
    }


def test_a_pull_that_was_killed_in_the_middle_is_finished_by_the_next_and_nothing_counts_twice(
    connect: Connect, tmp_path: Path
) -> None:
    count, batch = 5_000, 2_000
    experiment = make_experiment(_DWH, arms=[{"alpha_init": 2.0, "beta_init": 3.0}, {}])
    draw_many(experiment, count)
    file = DuckDBFile(tmp_path)
    file.create("participants", {"id": "TEXT", "revenue": "INTEGER"})
    file.execute("INSERT INTO participants SELECT 'p' || n, CAST(n % 3 = 0 AS INTEGER) FROM range(1, 5001) AS many (n)")
    killed = open_run(experiment, Job.DWH_PULL)
    holder, watcher = connect(), connect()
    with holder.transaction():
        # The youngest draw comes with the last chunk.
        holder.execute(
            "SELECT FROM draws WHERE experiment_id = %s AND participant_id = 'p1' FOR UPDATE", [experiment.id]
        )
        puller = _puller(killed.id, experiment, tmp_path, batch=batch)
        wait_until_blocked(watcher)
        puller.kill()
        puller.wait(DEADLINE_SECONDS)
        assert sum(arm.n_outcomes for arm in arms_of(experiment)) == 2 * batch
    close_run(killed)

    outcome = pull_outcomes(open_run(experiment, Job.DWH_PULL), sessions=Sessions(lambda _: file.open()))

    assert outcome.counts["recorded"] == outcome.counts["pending"] == count - 2 * batch
    stored = outcomes_of(experiment)
    assert stored == {f"p{n}": float(n % 3 == 0) for n in range(1, count + 1)}
    arms = arms_of(experiment)
    successes = sum((arm.alpha or 0) - (arm.alpha_init or 0) for arm in arms)
    failures = sum((arm.beta or 0) - (arm.beta_init or 0) for arm in arms)
    assert (successes, failures) == (count // 3, count - count // 3)
    assert recompute_posteriors(experiment.id).changed == ()


def _puller(run_id: str, experiment: Experiment, folder: Path, *, batch: int) -> subprocess.Popen[str]:
    told = {
        "database": django_connection.settings_dict["NAME"],
        "run": run_id,
        "experiment": experiment.id,
        "folder": os.fspath(folder),
        "batch": batch,
    }
    puller = subprocess.Popen(
        [sys.executable, "-m", "tests.support.puller"],
        cwd=REPOSITORY,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "xngin_worker.settings", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        text=True,
    )
    assert puller.stdin is not None
    with puller.stdin as stdin:
        json.dump(told, stdin)
    return puller
