"""Rules of draws and assignments: each row by itself, and against the definition of its experiment."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db import connections, router

from experiments.models import Draw
from experiments.reconciliation.statements import statement
from taskqueue.reconciliation.repairs import unchanged
from taskqueue.reconciliation.rules import Check, Found, Kind, Order, Repair, Row, Rule, Severity

_FLAGS = ("outcome", "autofailed_outcome", "observed_at")


def _clear_flags(order: Order) -> Mapping[str, Any]:
    """Flag and time of a draw that has no outcome; the outcome itself is nobody's to invent."""
    key = [order.subject["experiment_id"], order.subject["participant_id"]]
    with connections[router.db_for_write(Draw)].cursor() as cursor:
        cursor.execute(
            "SELECT outcome, autofailed_outcome, observed_at FROM draws"
            " WHERE experiment_id = %s AND participant_id = %s FOR NO KEY UPDATE",
            key,
        )
        row = cursor.fetchone()
        unchanged(order, None if row is None else dict(zip(_FLAGS, row, strict=True)))
        cursor.execute(
            "UPDATE draws SET autofailed_outcome = NULL, observed_at = NULL"
            " WHERE experiment_id = %s AND participant_id = %s AND outcome IS NULL",
            key,
        )
    return dict.fromkeys(_FLAGS)


CLEAR_FLAGS = Repair(
    name="clear_outcome_flags",
    text="of a draw without an outcome, `autofailed_outcome` and `observed_at` are cleared. Where there is an outcome,"
    " none; a person must.",
    apply=_clear_flags,
)
DRAW_ARM = Rule(
    name="experiments.draw_arm",
    kind=Kind.INCONSISTENT,
    severity=Severity.CRITICAL,
    table="draws",
    meaning="a draw's arm is one of its experiment's.",
    arises="rows were written with the triggers off (a restore, a copy between databases), or an arm was deleted so.",
    guidance="Find the arm that the participant was really shown. If nobody knows, delete the draw.",
)
OUTCOME_FLAGS = Rule(
    name="experiments.outcome_flags",
    kind=Kind.INCONSISTENT,
    severity=Severity.CRITICAL,
    table="draws",
    meaning="`outcome`, `autofailed_outcome` and `observed_at` are all set or all empty.",
    arises="the CHECK was dropped, and a program wrote one without the others.",
    guidance="With an outcome: find out whether it was observed or filled in because the time was up, and set the flag"
    " with the triggers off. Without one: the repair clears the rest.",
    repair=CLEAR_FLAGS,
)
OUTCOME_RANGE = Rule(
    name="experiments.outcome_range",
    kind=Kind.INCONSISTENT,
    severity=Severity.CRITICAL,
    table="draws",
    meaning="a bandit's outcome is a finite number, and 0 or 1 where the reward is binary.",
    arises="outcomes were written with the triggers off, or the CHECK was dropped.",
    guidance="Correct the outcome at its source and in the row, or empty it so that it is recorded again; then repair"
    " the sums and posteriors that the next run finds.",
)
DRAW_CONTEXT = Rule(
    name="experiments.draw_context",
    kind=Kind.INCONSISTENT,
    severity=Severity.CRITICAL,
    table="draws",
    meaning="`context_vals` has one finite number for each context of the experiment, and is empty without contexts.",
    arises="draws were written with the triggers off, or contexts were added to a committed experiment.",
    guidance="Restore the context that the draw was made with. If nobody knows it, delete the draw.",
)
ASSIGNMENT_ARM = Rule(
    name="experiments.assignment_arm",
    kind=Kind.INCONSISTENT,
    severity=Severity.CRITICAL,
    table="arm_assignments",
    meaning="an assignment's arm is one of its experiment's.",
    arises="rows were written with the triggers off (a restore, a copy between databases), or an arm was deleted so.",
    guidance="Find the arm that the participant is really in. If nobody knows, delete the assignment.",
)
ASSIGNMENT_CLUSTER = Rule(
    name="experiments.assignment_cluster",
    kind=Kind.INCONSISTENT,
    severity=Severity.CRITICAL,
    table="arm_assignments",
    meaning="an assignment names a cluster exactly where its experiment is clustered.",
    arises="rows were written with the triggers off, or `clustered` was changed afterwards.",
    guidance="Fill in the cluster from where the assignments came. Until then no standard error is to be trusted.",
)


def draws(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        subject = {"experiment_id": row["experiment_id"], "participant_id": row["participant_id"]}
        flags = {name: row[name] for name in _FLAGS}
        if row["foreign_arm"]:
            yield Found(
                rule=DRAW_ARM.name,
                subject=subject,
                expected="an arm of its experiment",
                observed={"arm_id": row["arm_id"]},
            )
        if row["unpaired"]:
            yield Found(
                rule=OUTCOME_FLAGS.name,
                subject=subject,
                expected="all set or all empty",
                observed=flags,
                before=flags if row["outcome"] is None else None,
            )
        if row["out_of_range"]:
            expected = "0 or 1" if row["is_binary"] else "a finite number"
            yield Found(
                rule=OUTCOME_RANGE.name, subject=subject, expected=expected, observed={"outcome": row["outcome"]}
            )
        if row["odd_context"]:
            yield Found(
                rule=DRAW_CONTEXT.name,
                subject=subject,
                expected={"finite_numbers": row["contexts"]},
                observed={"entries": row["entries"] or 0},
            )


def assignments(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        subject = {"experiment_id": row["experiment_id"], "participant_id": row["participant_id"]}
        if row["foreign_arm"]:
            yield Found(
                rule=ASSIGNMENT_ARM.name,
                subject=subject,
                expected="an arm of its experiment",
                observed={"arm_id": row["arm_id"]},
            )
        if row["odd_cluster"]:
            yield Found(
                rule=ASSIGNMENT_CLUSTER.name,
                subject=subject,
                expected="a cluster" if row["clustered"] else "no cluster",
                observed={"cluster_id": row["cluster_id"]},
            )


CHECKS = (
    Check(
        rules=(DRAW_ARM, OUTCOME_FLAGS, OUTCOME_RANGE, DRAW_CONTEXT),
        each=statement("experiments_with_draws"),
        statement=statement("draws"),
        judge=draws,
    ),
    Check(
        rules=(ASSIGNMENT_ARM, ASSIGNMENT_CLUSTER),
        each=statement("experiments_with_assignments"),
        statement=statement("assignments"),
        judge=assignments,
    ),
)
