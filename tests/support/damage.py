"""Rows as no program of ours leaves them: written with triggers off, where a constraint once was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection, transaction
from psycopg import sql

from taskqueue.reconciliation.findings import Finding
from taskqueue.reconciliation.plans import Plan, PlannedRepair
from taskqueue.reconciliation.reading import collect
from taskqueue.reconciliation.repairs import Applied, apply_plan


def damage(statement: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> None:
    """Run it with all triggers off."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, parameters)
        cursor.execute("SET LOCAL session_replication_role = origin")


def drop(table: str, name: str) -> None:
    """A constraint, until the test's transaction is rolled back. Indexes of unique ones with a condition, too."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        (is_index,) = cursor.fetchone() or (False,)
        gone = "DROP INDEX {name}" if is_index else "ALTER TABLE {table} DROP CONSTRAINT {name}"
        cursor.execute(sql.SQL(gone).format(table=sql.Identifier(table), name=sql.Identifier(name)))


def findings(**options: Any) -> tuple[Finding, ...]:
    """What the open transaction, with its damage, is found to be."""
    with transaction.atomic():
        return collect("default", **options).findings


def repair(*found: Finding, actor: str = "ann") -> list[Applied]:
    """Apply a plan of just these findings, without its file."""
    planned = tuple(
        PlannedRepair(
            rule=finding.rule,
            repair=finding.repair,
            table=finding.table,
            subject=finding.subject,
            before=finding.before,
            expected=finding.expected,
        )
        for finding in found
        if finding.repair is not None and finding.before is not None
    )
    return list(apply_plan(Plan(report="rec_1", database="", schema={}, repairs=planned), actor=actor, alias="default"))
