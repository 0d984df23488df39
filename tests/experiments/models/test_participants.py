"""What the database refuses of assignments and draws, a statement at a time, and the sums it keeps of outcomes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import connection

from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Arm, ArmAssignment, Draw, Experiment
from tests.support.experiments import arms_of, make_experiment
from tests.support.refusals import refused_by

pytestmark = pytest.mark.django_db

_NOW = datetime(2027, 1, 1, tzinfo=UTC)
_NAN, _INF = float("nan"), float("inf")


def _draw(experiment: Experiment, participant: str = "p", **fields: Any) -> Draw:
    usual = {"experiment": experiment, "arm": arms_of(experiment)[0], "participant_id": participant}
    return Draw(**{**usual, **fields})


def _observed(outcome: float, *, autofailed: bool = False) -> dict[str, Any]:
    return {"outcome": outcome, "autofailed_outcome": autofailed, "observed_at": _NOW}


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"arm_id": "arm_none"}, "draws_arm_of_experiment"),
        ({"participant_id": ""}, "draws_participant_id_of_1_to_255_characters"),
        ({"participant_id": "x" * 256}, "draws_participant_id_of_1_to_255_characters"),
        ({"outcome": 1.0}, "draws_outcome_with_flag_and_time"),
        ({"outcome": 1.0, "observed_at": _NOW}, "draws_outcome_with_flag_and_time"),
        ({"autofailed_outcome": False}, "draws_outcome_with_flag_and_time"),
        (_observed(_NAN), "draws_outcome_finite"),
        (_observed(0.5), "draws_binary_outcome"),
        (_observed(-1.0), "draws_binary_outcome"),
        ({"context_vals": [1.0]}, "draws_context_of_length"),
        ({"context_vals": []}, "draws_context_finite"),
    ],
)
def test_draws_that_make_no_sense_are_refused(fields: dict[str, Any], constraint: str) -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    with refused_by(constraint):
        draw = _draw(experiment)
        for name, value in fields.items():
            setattr(draw, name, value)
        draw.save(force_insert=True)


@pytest.mark.parametrize(
    ("context", "constraint"),
    [
        (None, "draws_context_of_length"),
        ([1.0, 2.0], "draws_context_of_length"),
        ([1.0, 2.0, 3.0, 4.0], "draws_context_of_length"),
        ([1.0, _NAN, 3.0], "draws_context_finite"),
        ([1.0, _INF, 3.0], "draws_context_finite"),
        ([1.0, None, 3.0], "draws_context_finite"),
    ],
)
def test_contexts_of_another_length_or_not_finite_are_refused(context: Any, constraint: str) -> None:
    experiment = make_experiment(ExperimentType.CMAB_ONLINE)
    with refused_by(constraint):
        _draw(experiment, context_vals=context).save(force_insert=True)


def test_a_draw_into_another_experiments_arm_spoils_its_whole_statement() -> None:
    experiment, other = make_experiment(ExperimentType.MAB_ONLINE), make_experiment(ExperimentType.MAB_ONLINE)
    with refused_by("draws_arm_of_experiment"):
        Draw.objects.bulk_create(
            [_draw(experiment), _draw(other), _draw(experiment, "q", arm=arms_of(other)[1])],
        )
    assert not Draw.objects.exists()


@pytest.mark.parametrize(
    ("experiment_type", "state", "constraint"),
    [
        (ExperimentType.FREQ_ONLINE, ExperimentState.COMMITTED, "draws_of_bandits"),
        (ExperimentType.MAB_ONLINE, ExperimentState.ASSIGNED, "draws_after_commit"),
    ],
)
def test_only_committed_bandits_draw(experiment_type: ExperimentType, state: ExperimentState, constraint: str) -> None:
    experiment = make_experiment(experiment_type, state=state)
    with refused_by(constraint):
        _draw(experiment).save(force_insert=True)


def test_a_participant_is_drawn_once() -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    _draw(experiment).save(force_insert=True)
    with refused_by("draws_pkey"):
        _draw(experiment, arm=arms_of(experiment)[1]).save(force_insert=True)


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": 0.0},
        {"autofailed_outcome": True},
        {"outcome": None, "autofailed_outcome": None, "observed_at": None},
        {"arm": "other"},
        {"participant_id": "q"},
        {"context_vals": [1.0]},
    ],
)
def test_a_recorded_outcome_and_its_draw_never_change(change: dict[str, Any]) -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    _draw(experiment, **_observed(1.0)).save(force_insert=True)
    if "arm" in change:
        change = {"arm": arms_of(experiment)[1]}
    with refused_by("draws_settled"):
        Draw.objects.filter(experiment=experiment).update(**change)


def test_a_binary_outcome_is_judged_when_it_comes_later_too() -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    Draw.objects.bulk_create([_draw(experiment, str(number)) for number in range(3)])
    pending = Draw.objects.filter(experiment=experiment)
    with refused_by("draws_binary_outcome"):
        pending.update(**_observed(0.5))
    pending.filter(participant_id="1").update(**_observed(1.0))


def _sums(arm: Arm) -> tuple[int, Decimal, Decimal]:
    arm.refresh_from_db()
    return arm.n_outcomes, arm.sum_y, arm.sum_yy


def test_sums_of_outcomes_are_exact_whoever_writes_them() -> None:
    experiment = make_experiment(
        ExperimentType.MAB_ONLINE,
        prior_type="normal",
        reward_type="real-valued",
    )
    baseline, other = arms_of(experiment)
    outcomes = [0.1, 0.2, 0.3, 1e300, -1e300, 1e-300, 9007199254740993.0, 1 / 3]
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO draws (experiment_id, arm_id, participant_id) VALUES (%s, %s, %s)",
            [(experiment.id, baseline.id, str(number)) for number in range(len(outcomes))],
        )
        for number, outcome in enumerate(outcomes):
            cursor.execute(
                "UPDATE draws SET outcome = %s, autofailed_outcome = false, observed_at = now()"
                " WHERE experiment_id = %s AND participant_id = %s",
                [outcome, experiment.id, str(number)],
            )
    Draw.objects.create(experiment=experiment, arm=other, participant_id="late", **_observed(2.5))

    exact = [Fraction(repr(outcome)) for outcome in outcomes]
    n, sum_y, sum_yy = _sums(baseline)
    assert (n, Fraction(sum_y), Fraction(sum_yy)) == (8, sum(exact), sum(y * y for y in exact))
    assert _sums(other) == (1, Decimal("2.5"), Decimal("6.25"))

    Draw.objects.filter(experiment=experiment).update(current_alpha=1.0)
    Draw.objects.filter(participant_id__in=["3", "late"]).delete()
    assert _sums(other) == (0, Decimal(0), Decimal(0))
    assert Fraction(_sums(baseline)[1]) == sum(exact) - Fraction("1e300")


def test_sums_with_contexts_hold_the_upper_triangle_row_by_row() -> None:
    experiment = make_experiment(ExperimentType.CMAB_ONLINE, contexts=2)
    baseline, other = arms_of(experiment)
    Draw.objects.bulk_create(
        [
            _draw(experiment, "a", context_vals=[1.0, 0.5], **_observed(2.0)),
            _draw(experiment, "b", context_vals=[1.0, -3.0], **_observed(0.1)),
            _draw(experiment, "c", context_vals=[9.0, 9.0]),
        ]
    )
    baseline.refresh_from_db()
    assert baseline.sum_xy == [Decimal("2.1"), Decimal("0.7")]
    assert baseline.sum_xx == [Decimal(2), Decimal("-2.5"), Decimal("9.25")]

    Draw.objects.filter(participant_id="c").update(**_observed(-1.0))
    baseline.refresh_from_db()
    other.refresh_from_db()
    assert baseline.sum_xx == [Decimal(83), Decimal("78.5"), Decimal("90.25")]
    assert (baseline.n_outcomes, other.n_outcomes, other.sum_xx) == (3, 0, None)


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"arm_id": "arm_none"}, "arm_assignments_arm_of_experiment"),
        ({"participant_id": ""}, "arm_assignments_ids_of_1_to_255_characters"),
        ({"cluster_id": "c"}, "arm_assignments_cluster_where_clustered"),
    ],
)
def test_assignments_that_make_no_sense_are_refused(fields: dict[str, Any], constraint: str) -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE)
    row = {"experiment_id": experiment.id, "arm_id": arms_of(experiment)[0].id, "participant_id": "p", **fields}
    with refused_by(constraint):
        ArmAssignment.objects.create(**row)


def test_assignments_of_clustered_experiments_name_their_cluster() -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE, clustered=True)
    baseline, other = arms_of(experiment)
    ArmAssignment.objects.create(experiment=experiment, arm=baseline, participant_id="p", cluster_id="c")
    ArmAssignment.objects.create(experiment=experiment, arm=other, participant_id="q", cluster_id="c")
    with refused_by("arm_assignments_cluster_where_clustered"):
        ArmAssignment.objects.create(experiment=experiment, arm=other, participant_id="r")
    with refused_by("arm_assignments_ids_of_1_to_255_characters"):
        ArmAssignment.objects.create(experiment=experiment, arm=other, participant_id="r", cluster_id="")


def test_bandits_have_no_assignments() -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    with refused_by("arm_assignments_of_frequentist"):
        ArmAssignment.objects.create(experiment=experiment, arm=arms_of(experiment)[0], participant_id="p")


def test_an_assignment_is_made_once_and_stays() -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE)
    baseline, other = arms_of(experiment)
    ArmAssignment.objects.create(experiment=experiment, arm=baseline, participant_id="p")
    with refused_by("arm_assignments_pkey"):
        ArmAssignment.objects.create(experiment=experiment, arm=other, participant_id="p")
    with refused_by("arm_assignments_stay"):
        ArmAssignment.objects.filter(participant_id="p").update(arm=other)
