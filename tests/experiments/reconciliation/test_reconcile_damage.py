"""Each invariant of experiments broken in turn: exactly that finding, and its repair mends it or a person is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models.functions import Now

from experiments.models import Arm, Experiment, JobRun, JobState, Snapshot
from experiments.operations.posteriors import recompute_posteriors
from experiments.reconciliation import posteriors
from taskqueue.models import Event
from taskqueue.reconciliation.rules import registry
from tests.support.damage import damage, drop, findings, repair
from tests.support.healthy_experiments import Healthy, healthy_experiments

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)
LATE = NOW - timedelta(days=2)


def _foreign_arm(healthy: Healthy) -> None:
    damage(
        "UPDATE draws SET arm_id = %s WHERE experiment_id = %s AND participant_id = 'p0'",
        [healthy.arm("dwh"), healthy["beta"].id],
    )


def _outcome_without_flag(healthy: Healthy) -> None:
    drop("draws", "draws_outcome_with_flag_and_time")
    _spoil(healthy["beta"], "p5", "autofailed_outcome = NULL")


def _flag_without_outcome(healthy: Healthy) -> None:
    drop("draws", "draws_outcome_with_flag_and_time")
    _spoil(healthy["beta"], "p0", "autofailed_outcome = true, observed_at = now()")


def _outcome_of_half(healthy: Healthy) -> None:
    _spoil(healthy["beta"], "p5", "outcome = 0.5")
    recompute_posteriors(healthy["beta"].id)


def _context_too_short(healthy: Healthy) -> None:
    _spoil(healthy["linear"], "p0", "context_vals = '{1}'")


def _context_not_finite(healthy: Healthy) -> None:
    drop("draws", "draws_context_finite")
    _spoil(healthy["contextual"], "p0", "context_vals = '{1,NaN,0}'")


def _assigned_to_a_foreign_arm(healthy: Healthy) -> None:
    damage(
        "UPDATE arm_assignments SET arm_id = %s WHERE experiment_id = %s AND participant_id = 'p0'",
        [healthy.arm("dwh"), healthy["freq_online"].id],
    )


def _cluster_where_none_belongs(healthy: Healthy) -> None:
    damage(
        "UPDATE arm_assignments SET cluster_id = 'c' WHERE experiment_id = %s AND participant_id = 'p0'",
        [healthy["freq_online"].id],
    )


def _count_of_outcomes(healthy: Healthy) -> None:
    Arm.objects.filter(pk=healthy.arm("beta")).update(n_outcomes=99)


def _sum_of_squares(healthy: Healthy) -> None:
    Arm.objects.filter(pk=healthy.arm("gaussian", 2)).update(sum_yy="1.5")


def _sums_of_contexts(healthy: Healthy) -> None:
    Arm.objects.filter(pk=healthy.arm("contextual")).update(sum_xx=None)


def _beta_posterior(healthy: Healthy) -> None:
    Arm.objects.filter(pk=healthy.arm("beta")).update(alpha=7.0)


def _no_posterior(healthy: Healthy) -> None:
    Arm.objects.filter(pk=healthy.arm("beta")).update(alpha=None, beta=None)


def _gaussian_posterior(healthy: Healthy) -> None:
    Arm.objects.filter(pk=healthy.arm("gaussian")).update(mu=[0.125])


def _linear_posterior(healthy: Healthy) -> None:
    Arm.objects.filter(pk=healthy.arm("linear", 2)).update(mu=[0.0, 0.0, 0.0])


def _logistic_posterior(healthy: Healthy) -> None:
    Arm.objects.filter(pk=healthy.arm("logistic")).update(mu=[0.125])


def _contextual_posterior(healthy: Healthy) -> None:
    Arm.objects.filter(pk=healthy.arm("contextual")).update(mu=[0.0, 0.0, 1e-3])


def _run_lost(healthy: Healthy) -> None:
    JobRun.objects.create(experiment=healthy["beta"], job="snapshot", lease_until=LATE, worker_id="w")


def _run_without_end(healthy: Healthy) -> None:
    drop("job_runs", "job_runs_lease_while_running")
    run = JobRun.objects.filter(experiment=healthy["beta"])[0]
    damage("UPDATE job_runs SET finished_at = NULL WHERE id = %s", [run.pk])


def _run_without_lease(healthy: Healthy) -> None:
    drop("job_runs", "job_runs_lease_while_running")
    JobRun.objects.create(experiment=healthy["beta"], job="snapshot", worker_id="w")


def _two_runs_at_once(healthy: Healthy) -> None:
    drop("job_runs", "job_runs_one_unfinished")
    for job in ("snapshot", "autofail"):
        JobRun.objects.create(
            experiment=healthy["beta"], job=job, lease_until=NOW + timedelta(minutes=1), worker_id="w"
        )


def _runs_not_counted(healthy: Healthy) -> None:
    JobState.objects.filter(experiment=healthy["beta"], job="snapshot").delete()


def _success_forgotten(healthy: Healthy) -> None:
    JobState.objects.filter(experiment=healthy["beta"], job="snapshot").update(succeeded_at=LATE)


def _snapshot_overdue(healthy: Healthy) -> None:
    _age_experiment(healthy["freq_online"])
    Snapshot.objects.filter(experiment=healthy["freq_online"], status="pending").delete()


def _pull_overdue(healthy: Healthy) -> None:
    _age_experiment(healthy["dwh"], job="dwh_pull")
    damage("UPDATE draws SET created_at = %s WHERE experiment_id = %s", [LATE, healthy["dwh"].id])


def _autofail_overdue(healthy: Healthy) -> None:
    _age_experiment(healthy["beta"], job="autofail")
    damage("UPDATE draws SET created_at = %s WHERE experiment_id = %s", [LATE, healthy["beta"].id])


def _snapshot_never_made(healthy: Healthy) -> None:
    Snapshot.objects.filter(experiment=healthy["beta"], status="pending").update(created_at=LATE)


def _snapshot_of_the_abandoned(healthy: Healthy) -> None:
    Snapshot.objects.filter(experiment=healthy["beta"], status="pending").update(created_at=LATE)
    Experiment.objects.filter(pk=healthy["beta"].pk).update(state="abandoned")


def _success_without_data(healthy: Healthy) -> None:
    drop("snapshots", "snapshots_data_of_success")
    damage("UPDATE snapshots SET data = NULL WHERE experiment_id = %s", [healthy["beta"].id])


def _spoil(experiment: Experiment, participant: str, assignment: str) -> None:
    damage(
        f"UPDATE draws SET {assignment} WHERE experiment_id = %s AND participant_id = %s",  # noqa: S608 - above
        [experiment.id, participant],
    )


def _age_experiment(experiment: Experiment, *, job: str = "snapshot") -> None:
    damage("UPDATE experiments SET created_at = %s, updated_at = %s WHERE id = %s", [LATE, LATE, experiment.id])
    JobRun.objects.filter(experiment=experiment, job=job).update(started_at=LATE)
    JobState.objects.filter(experiment=experiment, job=job).update(succeeded_at=LATE)


DAMAGES: list[tuple[str, Callable[[Healthy], None], bool]] = [
    ("experiments.draw_arm", _foreign_arm, False),
    ("experiments.outcome_flags", _outcome_without_flag, False),
    ("experiments.outcome_flags", _flag_without_outcome, True),
    ("experiments.outcome_range", _outcome_of_half, False),
    ("experiments.draw_context", _context_too_short, False),
    ("experiments.draw_context", _context_not_finite, False),
    ("experiments.assignment_arm", _assigned_to_a_foreign_arm, False),
    ("experiments.assignment_cluster", _cluster_where_none_belongs, False),
    ("experiments.arm_sums", _count_of_outcomes, True),
    ("experiments.arm_sums", _sum_of_squares, True),
    ("experiments.arm_sums", _sums_of_contexts, True),
    ("experiments.posterior", _beta_posterior, True),
    ("experiments.posterior", _no_posterior, True),
    ("experiments.posterior", _gaussian_posterior, True),
    ("experiments.posterior", _linear_posterior, True),
    ("experiments.posterior", _logistic_posterior, True),
    ("experiments.contextual_posterior", _contextual_posterior, True),
    ("experiments.job_run_closed", _run_lost, True),
    ("experiments.job_run_shape", _run_without_end, False),
    ("experiments.job_run_shape", _run_without_lease, True),
    ("experiments.job_run_single", _two_runs_at_once, True),
    ("experiments.job_state", _runs_not_counted, True),
    ("experiments.job_state", _success_forgotten, True),
    ("experiments.snapshot_fresh", _snapshot_overdue, True),
    ("experiments.outcomes_fresh", _pull_overdue, False),
    ("experiments.outcomes_fresh", _autofail_overdue, False),
    ("experiments.snapshot_settled", _snapshot_never_made, False),
    ("experiments.snapshot_settled", _snapshot_of_the_abandoned, True),
    ("experiments.snapshot_shape", _success_without_data, False),
]


@pytest.fixture
def healthy() -> Healthy:
    return healthy_experiments()


def test_experiments_of_every_type_have_no_finding(healthy: Healthy) -> None:
    assert findings() == ()


@pytest.mark.parametrize(("rule", "broken", "is_mended"), DAMAGES, ids=[each[1].__name__ for each in DAMAGES])
def test_a_broken_invariant_is_found_alone_and_mended_or_left_to_a_person(
    healthy: Healthy, rule: str, broken: Callable[[Healthy], None], is_mended: bool
) -> None:
    broken(healthy)

    (found,) = findings()

    assert found.rule == rule
    assert found.guidance
    assert (found.repair is not None) == is_mended
    if is_mended:
        (applied,) = repair(found)
        assert applied.done, applied
        # A snapshot that is asked for is not yet made.
        expected = ["experiments.snapshot_fresh"] if rule == "experiments.snapshot_fresh" else []
        assert [after.rule for after in findings()] == expected
        assert Event.objects.get(type="reconciliation.repaired").data["actor"] == "ann"


def test_every_rule_of_experiments_is_broken_by_some_damage() -> None:
    assert {rule for rule, *_ in DAMAGES} == {name for name in registry.rules if name.startswith("experiments.")}


def test_one_plan_mends_sums_and_posteriors_since_both_follow_from_the_draws(healthy: Healthy) -> None:
    damage("UPDATE draws SET outcome = 1 - outcome WHERE experiment_id = %s", [healthy["beta"].id])
    damage("UPDATE draws SET outcome = outcome + 1 WHERE experiment_id = %s", [healthy["linear"].id])

    found = findings()

    assert {each.rule for each in found} == {"experiments.arm_sums", "experiments.posterior"}
    assert all(applied.done for applied in repair(*found))
    assert findings() == ()


def test_a_repaired_snapshot_is_asked_for_once(healthy: Healthy) -> None:
    _snapshot_overdue(healthy)
    (found,) = findings()

    first, second = repair(found) + repair(found)

    assert (first.code, second.code) == (None, "changed")
    assert Snapshot.objects.filter(experiment=healthy["freq_online"], status="pending").count() == 1


def test_a_posterior_that_cannot_be_computed_is_told_with_its_reason(healthy: Healthy) -> None:
    drop("arms", "arms_prior_in_range")
    damage("UPDATE arms SET alpha_init = 1e300 WHERE id = %s", [healthy.arm("beta")])

    found = findings(rules=["experiments.posterior"])

    assert {each.rule for each in found} == {"experiments.posterior"}
    assert "cannot be computed" in found[0].observed
    assert found[0].repair is None


def test_a_posterior_of_many_contexts_is_checked_as_they_stream_by(
    healthy: Healthy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posteriors, "MOST_CONTEXTS", 2)
    assert findings() == ()

    arm = Arm.objects.filter(pk=healthy.arm("contextual"))
    mu, covariance = arm.values_list("mu", "covariance").get()
    assert mu is not None
    assert covariance is not None
    arm.update(mu=[mu[0], mu[1] + 1e-4, mu[2]])
    (moved,) = findings()
    assert moved.rule == "experiments.contextual_posterior"
    assert moved.expected["mu"] == pytest.approx(mu, abs=1e-6)

    arm.update(mu=mu, covariance=[[2 * covariance[0][0], *covariance[0][1:]], *covariance[1:]])
    (wider,) = findings()
    assert repair(wider)[0].done
    assert findings() == ()

    arm.update(mu=None, covariance=None)
    assert [each.rule for each in findings()] == ["experiments.contextual_posterior"]


def test_an_experiment_that_waits_for_its_first_hours_is_not_late(healthy: Healthy) -> None:
    JobRun.objects.all().delete()
    JobState.objects.all().delete()
    Experiment.objects.filter(pk=healthy["freq_online"].pk).update(updated_at=Now())
    assert findings() == ()
