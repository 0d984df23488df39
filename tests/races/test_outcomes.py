"""Several connections record, draw, assign and fail at the same moment: nothing is lost, nothing counts twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connection as django_connection
from django.db import transaction

from experiments.errors import Conflict
from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Arm, ArmAssignment, Draw, Experiment
from experiments.operations.assign import assign_participant
from experiments.operations.draw import draw_participant
from experiments.operations.lifecycle import commit_experiment
from experiments.operations.posteriors import recompute_posteriors
from experiments.operations.record import RecordReport, record_outcome, record_outcomes
from tests.support.experiments import arms_of, make_experiment
from tests.support.sessions import DEADLINE_SECONDS, Connect, wait_until_blocked
from tests.support.worker_process import REPOSITORY

_MAB = ExperimentType.MAB_ONLINE
_PROCESSES = 8
_REAL: dict[str, Any] = {"prior_type": "normal", "reward_type": "real-valued"}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def _elsewhere[Result](call: Callable[[], Result]) -> Callable[[], Result]:
    def run() -> Result:
        try:
            return call()
        finally:
            django_connection.close()

    return run


def _drawn(draws: int, **fields: Any) -> Experiment:
    """All on the first arm."""
    experiment = make_experiment(_MAB, **fields)
    baseline = arms_of(experiment)[0]
    Draw.objects.bulk_create(
        Draw(experiment=experiment, arm=baseline, participant_id=f"p{number}") for number in range(draws)
    )
    return experiment


def test_eight_processes_lose_none_of_the_outcomes_that_they_record_on_one_arm(connect: Connect) -> None:
    beta, estimated = _drawn(_PROCESSES * 60), _drawn(_PROCESSES * 500, **_REAL)
    outcomes = {
        beta.id: {f"p{number}": float(number % 3 == 0) for number in range(_PROCESSES * 60)},
        estimated.id: {f"p{number}": number / 7 - 1e5 / (number + 1) for number in range(_PROCESSES * 500)},
    }
    shares = {
        id: [dict(list(recorded.items())[start::_PROCESSES]) for start in range(_PROCESSES)]
        for id, recorded in outcomes.items()
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.recorders"],
        cwd=REPOSITORY,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "xngin_worker.settings", "OPENBLAS_NUM_THREADS": "1"},
        input=json.dumps({"database": django_connection.settings_dict["NAME"], "experiments": shares}),
        capture_output=True,
        text=True,
        timeout=6 * DEADLINE_SECONDS,
    )

    assert done.returncode == 0, done.stderr
    # The posterior of all at once, in another experiment and in one statement.
    others = {beta.id: _drawn(_PROCESSES * 60), estimated.id: _drawn(_PROCESSES * 500, **_REAL)}
    for experiment in (beta, estimated):
        recorded, other = outcomes[experiment.id], others[experiment.id]
        stored = Draw.objects.filter(experiment=experiment).values_list("participant_id", "outcome")
        assert dict(stored) == recorded
        assert record_outcomes(other.id, recorded).applied == len(recorded)
        baseline, expected = arms_of(experiment)[0], arms_of(other)[0]
        assert baseline.n_outcomes == len(recorded)
        for name in ("alpha", "beta", "mu", "covariance", "sum_y", "sum_yy"):
            assert getattr(baseline, name) == getattr(expected, name)
        assert baseline.id not in recompute_posteriors(experiment.id).changed


def _hold(connection: Any, experiment: Experiment) -> None:
    connection.execute("SELECT FROM arms WHERE experiment_id = %s FOR UPDATE", [experiment.id])


def test_of_two_different_outcomes_at_once_one_stays_and_one_is_a_conflict(
    connect: Connect, pool: ThreadPoolExecutor
) -> None:
    experiment = _drawn(1)
    holder, watcher = connect(), connect()
    with holder.transaction():
        _hold(holder, experiment)
        both = [pool.submit(_elsewhere(partial(record_outcome, experiment.id, "p0", value))) for value in (0, 1)]
        wait_until_blocked(watcher, count=2)
    errors = [error for future in both if (error := future.exception(DEADLINE_SECONDS)) is not None]
    assert [type(error) for error in errors] == [Conflict]
    assert Arm.objects.get(experiment=experiment, position=1).n_outcomes == 1


def test_a_draw_that_gets_its_outcome_while_its_time_is_up_keeps_it(connect: Connect, pool: ThreadPoolExecutor) -> None:
    experiment = _drawn(3)
    holder, watcher = connect(), connect()
    with holder.transaction():
        _hold(holder, experiment)
        real = pool.submit(_elsewhere(lambda: record_outcome(experiment.id, "p1", 1)))
        wait_until_blocked(watcher, count=1)
        zeros = {"p0": 0, "p1": 0, "p2": 0}
        failing: Future[RecordReport] = pool.submit(
            _elsewhere(lambda: record_outcomes(experiment.id, zeros, autofailed=True))
        )
        wait_until_blocked(watcher, count=2)
    assert not real.result(DEADLINE_SECONDS).replayed
    report = failing.result(DEADLINE_SECONDS)
    assert (report.applied, report.already_had) == (2, 1)
    draw = Draw.objects.get(experiment=experiment, participant_id="p1")
    assert (draw.outcome, draw.autofailed_outcome) == (1.0, False)
    baseline = arms_of(experiment)[0]
    assert (baseline.alpha, baseline.beta) == (2.0, 3.0)


def test_a_participant_drawn_by_eight_callers_at_once_has_one_arm(connect: Connect, pool: ThreadPoolExecutor) -> None:
    experiment = make_experiment(_MAB, arms=6)
    start = threading.Barrier(8)

    def call() -> str:
        start.wait(DEADLINE_SECONDS)
        return draw_participant(experiment.id, "p").arm_id

    arms = {future.result(DEADLINE_SECONDS) for future in [pool.submit(_elsewhere(call)) for _ in range(8)]}
    assert arms == {Draw.objects.get().arm_id}


def test_a_participant_whose_assignment_is_under_way_waits_and_gets_that_arm(
    connect: Connect, pool: ThreadPoolExecutor
) -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE, arms=6)
    watcher = connect()
    with transaction.atomic():
        first = assign_participant(experiment.id, "p")
        other = pool.submit(_elsewhere(lambda: assign_participant(experiment.id, "p")))
        wait_until_blocked(watcher)
    assert (other.result(DEADLINE_SECONDS).arm_id, other.result().replayed) == (first.arm_id, True)
    assert ArmAssignment.objects.count() == 1


def test_a_participant_whose_assignment_was_rolled_back_gets_an_arm_of_its_own(
    connect: Connect, pool: ThreadPoolExecutor
) -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE, arms=6)
    watcher = connect()
    with transaction.atomic():
        assign_participant(experiment.id, "p")
        other = pool.submit(_elsewhere(lambda: assign_participant(experiment.id, "p")))
        wait_until_blocked(watcher)
        transaction.set_rollback(True)
    assert other.result(DEADLINE_SECONDS).replayed is False
    assert ArmAssignment.objects.get().arm_id == other.result().arm_id


def test_of_two_commits_at_once_the_second_is_told(connect: Connect, pool: ThreadPoolExecutor) -> None:
    experiment = make_experiment(_MAB, state=ExperimentState.ASSIGNED)
    watcher = connect()
    with transaction.atomic():
        commit_experiment(experiment.id)
        other = pool.submit(_elsewhere(lambda: commit_experiment(experiment.id)))
        wait_until_blocked(watcher)
    assert isinstance(other.exception(DEADLINE_SECONDS), Conflict)


def test_an_arm_changed_during_the_commit_waits_and_is_refused(connect: Connect, pool: ThreadPoolExecutor) -> None:
    experiment = make_experiment(_MAB, state=ExperimentState.ASSIGNED)
    changer, watcher = connect(), connect()
    query = "UPDATE arms SET alpha_init = 9 WHERE experiment_id = %s"
    with transaction.atomic():
        commit_experiment(experiment.id)
        changed = pool.submit(changer.execute, query, [experiment.id])
        wait_until_blocked(watcher, changer)
    with pytest.raises(psycopg.errors.CheckViolation, match="do not change"):
        changed.result(DEADLINE_SECONDS)


def test_a_commit_waits_for_an_arm_that_is_being_changed_and_takes_it_as_it_became(
    connect: Connect, pool: ThreadPoolExecutor
) -> None:
    experiment = make_experiment(_MAB, state=ExperimentState.ASSIGNED)
    changer, watcher = connect(), connect()
    with changer.transaction():
        changer.execute("UPDATE arms SET alpha_init = 9 WHERE experiment_id = %s", [experiment.id])
        committed = pool.submit(_elsewhere(lambda: commit_experiment(experiment.id)))
        wait_until_blocked(watcher)
        changer.execute("UPDATE arms SET beta_init = 8 WHERE experiment_id = %s", [experiment.id])
    committed.result(DEADLINE_SECONDS)
    assert [(arm.alpha, arm.beta) for arm in arms_of(experiment)] == [(9.0, 8.0)] * 2


def test_an_arm_cannot_go_while_a_participant_is_given_to_it(connect: Connect, pool: ThreadPoolExecutor) -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE, state=ExperimentState.ASSIGNED)
    arm = arms_of(experiment)[1]
    changer, watcher = connect(), connect()
    with transaction.atomic():
        ArmAssignment.objects.create(experiment=experiment, arm=arm, participant_id="p")
        gone = pool.submit(changer.execute, "DELETE FROM arms WHERE id = %s", [arm.id])
        wait_until_blocked(watcher, changer)
    with pytest.raises(psycopg.errors.ForeignKeyViolation, match="still has draws or assignments"):
        gone.result(DEADLINE_SECONDS)
