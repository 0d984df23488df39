"""A repair and somebody else at one row: the lock decides who comes first, and the repair never undoes the other."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import connection as django_connection

from experiments.kinds import ExperimentType
from experiments.models import Arm, Draw, JobRun
from taskqueue.models import Event, Task, TaskTransition
from taskqueue.reconciliation.findings import Finding
from taskqueue.reconciliation.repairs import Applied
from tests.support.damage import findings, repair
from tests.support.experiments import arms_of, make_experiment
from tests.support.sessions import DEADLINE_SECONDS, Connect, claim, wait_until_blocked
from tests.support.tasks_in_state import task_in


def _repairing(pool: ThreadPoolExecutor, *found: Finding) -> Future[list[Applied]]:
    def run() -> list[Applied]:
        try:
            return repair(*found)
        finally:
            django_connection.close()

    return pool.submit(run)


def test_a_task_claimed_meanwhile_is_not_set_aside(connect: Connect) -> None:
    task_in("due", id="a", retry_count=2, max_retries=1)
    found = findings()
    worker, watcher = connect(), connect()

    with ThreadPoolExecutor(1) as pool:
        with worker.transaction():
            assert claim(worker)
            repairing = _repairing(pool, *found)
            wait_until_blocked(watcher)
        (applied,) = repairing.result(DEADLINE_SECONDS)

    assert applied.code == "changed"
    assert Task.objects.get(id="a").status == "running"
    assert not TaskTransition.objects.exists()


def test_two_persons_apply_one_plan_and_each_repair_is_made_once(connect: Connect) -> None:
    for n in range(20):
        task_in("due", id=f"task_{n:02}", retry_count=2, max_retries=1)
    found = findings()
    first, watcher = connect(), connect()

    with ThreadPoolExecutor(2) as pool:
        with first.transaction():
            first.execute("SELECT FROM tasks WHERE id = 'task_00' FOR UPDATE")
            both = [_repairing(pool, *found) for _ in range(2)]
            wait_until_blocked(watcher, count=2)
        codes = [applied.code for one in both for applied in one.result(DEADLINE_SECONDS)]

    assert (codes.count(None), codes.count("changed")) == (20, 20)
    assert TaskTransition.objects.count() == 20


@pytest.fixture
def bandit(transactional_db: None) -> str:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    Draw.objects.create(experiment=experiment, arm=arms_of(experiment)[0], participant_id="p1")
    Draw.objects.create(experiment=experiment, arm=arms_of(experiment)[0], participant_id="p2")
    return experiment.id


_OUTCOME = """
    UPDATE draws SET outcome = 1, autofailed_outcome = false, observed_at = now()
    WHERE experiment_id = %s AND participant_id = %s
"""


def test_an_outcome_that_comes_while_a_posterior_is_repaired_is_in_it(connect: Connect, bandit: str) -> None:
    """Plain SQL records outcomes and computes no posterior: that is what is repaired."""
    other, watcher = connect(), connect()
    other.execute(_OUTCOME, [bandit, "p1"])
    (found,) = findings()

    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.execute(_OUTCOME, [bandit, "p2"])
            repairing = _repairing(pool, found)
            wait_until_blocked(watcher)
        (applied,) = repairing.result(DEADLINE_SECONDS)

    assert applied.done
    arm = Arm.objects.get(pk=found.subject["id"])
    assert (arm.n_outcomes, arm.alpha) == (2, 3.0)
    assert findings() == ()


def test_sums_that_an_outcome_changed_meanwhile_are_not_overwritten(connect: Connect, bandit: str) -> None:
    Arm.objects.filter(experiment_id=bandit, position=1).update(n_outcomes=7)
    (found,) = findings(rules=["experiments.arm_sums"])
    other, watcher = connect(), connect()

    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.execute(_OUTCOME, [bandit, "p1"])
            repairing = _repairing(pool, found)
            wait_until_blocked(watcher)
        (applied,) = repairing.result(DEADLINE_SECONDS)

    assert applied.code == "changed"
    assert Arm.objects.get(pk=found.subject["id"]).n_outcomes == 8
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("meanwhile", "status"),
    [
        ("UPDATE job_runs SET lease_until = now() + interval '1 min'", "running"),
        ("UPDATE job_runs SET status = 'success', finished_at = now(), lease_until = NULL", "success"),
    ],
)
def test_a_run_whose_worker_came_back_is_not_closed(connect: Connect, bandit: str, meanwhile: str, status: str) -> None:
    JobRun.objects.create(experiment_id=bandit, job="snapshot", worker_id="w", lease_until="2026-01-01T00:00:00Z")
    (found,) = findings(rules=["experiments.job_run_closed"])
    worker, watcher = connect(), connect()

    with ThreadPoolExecutor(1) as pool:
        with worker.transaction():
            worker.execute(meanwhile.encode())
            repairing = _repairing(pool, found)
            wait_until_blocked(watcher)
        (applied,) = repairing.result(DEADLINE_SECONDS)

    assert applied.code == "changed"
    assert JobRun.objects.get().status == status


def test_a_row_that_stays_locked_is_told_as_locked(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskqueue.reconciliation.repairs._LOCK_TIMEOUT", "50ms")
    for name in ("a", "b"):
        task_in("due", id=name, retry_count=2, max_retries=1)
    found = findings()
    holder = connect()

    with holder.transaction():
        holder.execute("SELECT FROM tasks WHERE id = 'a' FOR UPDATE")
        first, second = repair(*found)

    assert (first.code, second.code) == ("locked", None)
    assert Task.objects.get(id="a").status == "pending"
