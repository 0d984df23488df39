"""Draws whose time is up fail, whatever their number, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments.errors import Conflict, InvalidInput
from experiments.jobs import autofail
from experiments.jobs.autofail import fail_expired
from experiments.jobs.run import RunCancelled, RunLost
from experiments.kinds import ExperimentState, ExperimentType, Job
from experiments.models import Draw, Experiment
from experiments.operations.posteriors import recompute_posteriors
from experiments.operations.record import record_outcome
from tests.support.experiments import arms_of, make_experiment
from tests.support.job_runs import close_run, draw, draw_many, open_run, outcomes_of

pytestmark = pytest.mark.django_db

_MAB = ExperimentType.MAB_ONLINE


def _experiment(kind: ExperimentType = _MAB, **fields: Any) -> Experiment:
    return make_experiment(kind, enable_autofail=True, **fields)


def _fail(experiment: Experiment) -> dict[str, int]:
    run = open_run(experiment, Job.AUTOFAIL)
    counts = dict(fail_expired(run).counts)
    close_run(run)
    return counts


def test_only_what_is_older_than_the_window_fails() -> None:
    experiment = _experiment(autofail_window=2)
    draw(experiment, ["old"], hours_ago=2.01)
    draw(experiment, ["young"], hours_ago=1.99)

    assert _fail(experiment) == {"failed": 1, "kept": 0, "batches": 1}

    assert outcomes_of(experiment) == {"old": 0.0, "young": None}
    baseline = arms_of(experiment)[0]
    assert (baseline.n_outcomes, baseline.alpha, baseline.beta) == (1, 1.0, 2.0)


def test_failed_draws_say_so_and_have_the_value_of_the_experiment() -> None:
    experiment = _experiment(autofail_outcome_value=1.0)
    draw(experiment, ["p"], hours_ago=25)

    _fail(experiment)

    failed = Draw.objects.get()
    assert (failed.outcome, failed.autofailed_outcome) == (1.0, True)
    assert failed.observed_at is not None
    assert (failed.current_alpha, failed.current_beta) == (2.0, 1.0)


def test_an_outcome_that_was_recorded_stays_and_a_later_run_finds_nothing() -> None:
    experiment = _experiment()
    draw(experiment, ["real", "late"], hours_ago=30)
    record_outcome(experiment.id, "real", 1)

    assert _fail(experiment) == {"failed": 1, "kept": 0, "batches": 1}
    assert _fail(experiment) == {"failed": 0, "kept": 0, "batches": 0}

    assert outcomes_of(experiment) == {"real": 1.0, "late": 0.0}
    assert Draw.objects.get(participant_id="real").autofailed_outcome is False


@pytest.mark.parametrize(
    ("kind", "contexts", "fields"),
    [
        (_MAB, 0, {}),
        (_MAB, 0, {"prior_type": "normal", "reward_type": "binary"}),
        (_MAB, 0, {"prior_type": "normal", "reward_type": "real-valued", "autofail_outcome_value": -0.1}),
        (ExperimentType.CMAB_ONLINE, 3, {"autofail_outcome_value": 2.5}),
        (ExperimentType.CMAB_ONLINE, 3, {"reward_type": "binary"}),
    ],
    ids=["beta", "logistic", "normal", "normal-3-contexts", "logistic-3-contexts"],
)
def test_posteriors_are_those_of_all_outcomes_after_each_batch(
    kind: ExperimentType, contexts: int, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autofail, "BATCH", 70)
    experiment = _experiment(kind, **fields)
    draw_many(experiment, 200, hours_ago=30, contexts=contexts)
    for participant, outcome in (("p3", 1), ("p4", 0), ("p5", 1)):
        record_outcome(experiment.id, participant, outcome)

    assert _fail(experiment) == {"failed": 197, "kept": 0, "batches": 3}

    assert recompute_posteriors(experiment.id).changed == ()
    # The trajectory ends where the arms stand: the youngest draws failed last.
    for arm, participant in zip(arms_of(experiment), ("p2", "p1"), strict=True):
        last = Draw.objects.get(participant_id=participant)
        assert (last.current_alpha, last.current_beta) == (arm.alpha, arm.beta)
        assert (last.current_mu, last.current_covariance) == (arm.mu, arm.covariance)


def test_statements_do_not_grow_with_the_draws() -> None:
    statements = []
    for count in (10, 2_000):
        experiment = _experiment()
        draw_many(experiment, count, hours_ago=30)
        run = open_run(experiment, Job.AUTOFAIL)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            fail_expired(run)
        statements.append(len(queries))
    assert statements[0] == statements[1]


def test_draws_of_one_instant_and_beyond_any_calendar_fail_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autofail, "BATCH", 2)
    experiment = _experiment()
    draw(experiment, ["e", "d", "c", "b", "a"], hours_ago=48)
    draw(experiment, ["ancient", "eternal"])
    with connection.cursor() as cursor:
        cursor.execute("UPDATE draws SET created_at = '-infinity' WHERE participant_id = 'ancient'")
        cursor.execute("UPDATE draws SET created_at = 'infinity' WHERE participant_id = 'eternal'")

    assert _fail(experiment) == {"failed": 6, "kept": 0, "batches": 3}

    with connection.cursor() as cursor:
        cursor.execute("SELECT participant_id FROM draws WHERE outcome IS NULL")
        assert cursor.fetchall() == [("eternal",)]


def test_a_run_that_is_told_to_stop_keeps_whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autofail, "BATCH", 10)
    experiment = _experiment()
    draw_many(experiment, 25, hours_ago=30)
    run = open_run(experiment, Job.AUTOFAIL)
    stopping = connection.execute_wrapper(_StopAfterFirstBatch(run.cancellation.stop))
    with stopping, pytest.raises(RunCancelled, match="enough"):
        fail_expired(run)

    assert Draw.objects.filter(outcome__isnull=False).count() == 10
    assert recompute_posteriors(experiment.id).changed == ()


class _StopAfterFirstBatch:
    def __init__(self, stop: Any) -> None:
        self._stop = stop

    def __call__(self, execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().startswith("UPDATE draws"):
            self._stop("enough")
        return execute(sql, parameters, many, context)


def test_a_run_that_was_closed_by_another_worker_changes_nothing() -> None:
    experiment = _experiment()
    draw(experiment, ["p"], hours_ago=30)
    run = open_run(experiment, Job.AUTOFAIL)
    close_run(run)

    with pytest.raises(RunLost):
        fail_expired(run)

    assert outcomes_of(experiment) == {"p": None}


def test_an_experiment_without_autofail_is_left_alone() -> None:
    experiment = make_experiment(_MAB)
    draw(experiment, ["p"], hours_ago=30)

    outcome = fail_expired(open_run(experiment, Job.AUTOFAIL))

    assert outcome.message is not None
    assert "enable_autofail" in outcome.message
    assert outcomes_of(experiment) == {"p": None}


def test_an_abandoned_experiment_takes_no_outcome() -> None:
    experiment = _experiment()
    draw(experiment, ["p"], hours_ago=30)
    Experiment.objects.filter(pk=experiment.pk).update(state=ExperimentState.ABANDONED.value)

    with pytest.raises(Conflict, match="is abandoned, not committed"):
        fail_expired(open_run(experiment, Job.AUTOFAIL))


def test_outcomes_beyond_double_precision_fail_the_run_and_say_so() -> None:
    experiment = _experiment(
        ExperimentType.CMAB_ONLINE,
        arms=[{"sigma_init": 1e100}, {}],
        contexts=1,
        noise_sd=1e-100,
        autofail_outcome_value=1e250,
    )
    draw(experiment, ["p"], hours_ago=30, context=[1e-100])

    with pytest.raises(InvalidInput, match="cannot be computed"):
        fail_expired(open_run(experiment, Job.AUTOFAIL))

    assert outcomes_of(experiment) == {"p": None}
