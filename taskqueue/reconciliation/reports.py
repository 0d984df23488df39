"""Making a report: the read in one transaction, the row in another. A read that fails leaves no report at all."""

import time
from collections.abc import Callable, Collection
from typing import Any

from django.db import router, transaction
from django.db.models.functions import Now

from taskqueue import events, telemetry
from taskqueue.errors import ReconciliationError
from taskqueue.models import ReconciliationReport
from taskqueue.reconciliation.findings import KEPT_PER_RULE, Finding, Reading
from taskqueue.reconciliation.identity import database_identity, schema_version
from taskqueue.reconciliation.reading import RULE_SECONDS, collect, one_view
from taskqueue.text import storable

FORMAT = 1
# Whose migrations say what a report and a plan are about.
APPS = ("taskqueue", "experiments")


def reconcile(
    *,
    actor: str,
    rules: Collection[str] | None = None,
    kept: int = KEPT_PER_RULE,
    rule_seconds: float = RULE_SECONDS,
    stopping: Callable[[], bool] = lambda: False,
) -> ReconciliationReport:
    """Read everything, then store what was found. Nothing else is ever written.

    Raises what ``collect`` raises, and the driver's error when the read fails: then there is no report.
    """
    alias = router.db_for_write(ReconciliationReport)
    began = time.monotonic()
    with one_view(alias, rule_seconds=rule_seconds):
        identity, schema = database_identity(alias), schema_version(alias, APPS)
        reading = collect(alias, rules=rules, kept=kept, rule_seconds=rule_seconds, stopping=stopping)
    report = store(reading, actor=actor, database=identity, schema=schema, alias=alias)
    telemetry.emit(
        events.RECONCILED,
        report_id=report.id,
        actor=actor,
        rules=len(reading.results),
        findings=reading.found,
        severities=reading.severities(),
        duration_ms=round((time.monotonic() - began) * 1000),
    )
    return report


def store(reading: Reading, *, actor: str, database: str, schema: dict[str, str], alias: str) -> ReconciliationReport:
    with transaction.atomic(using=alias):
        report = ReconciliationReport.objects.using(alias).create(
            format=FORMAT,
            actor=storable(actor, 200),
            snapshot_at=reading.snapshot_at,
            finished_at=Now(),
            database=database,
            schema=schema,
            rules=[_result(result) for result in reading.results],
            findings_count=reading.found,
            findings=[_finding(finding) for finding in reading.findings],
        )
        report.refresh_from_db()
    return report


def load(report_id: str) -> ReconciliationReport:
    """Raises ``ReconciliationError`` when there is no such report, or it was written by another version."""
    report = ReconciliationReport.objects.filter(pk=report_id).first() if "\0" not in report_id else None
    if report is None:
        raise ReconciliationError("not_found", f"there is no report {report_id!r}; `reconcile run` writes one")
    if report.format != FORMAT:
        raise ReconciliationError(
            "other_format", f"the report {report_id} has format {report.format}, this program reads {FORMAT}; run again"
        )
    return report


def findings_of(report: ReconciliationReport) -> list[Finding]:
    return [Finding(**row) for row in report.findings]


def summary(report: ReconciliationReport) -> dict[str, Any]:
    """What programs get: all of the report, findings included."""
    return {
        "report": report.id,
        "snapshot_at": report.snapshot_at.isoformat(),
        "finished_at": report.finished_at.isoformat(),
        "findings_count": report.findings_count,
        "rules": report.rules,
        "findings": report.findings,
    }


def _result(result: Any) -> dict[str, Any]:
    return {"rule": result.rule, "rows": result.rows, "found": result.found, "kept": result.kept}


def _finding(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in Finding.__dataclass_fields__}
