"""A plan of repairs: made from a report, sealed, read by people, and given back to be applied."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.utils.crypto import constant_time_compare, salted_hmac

from taskqueue.errors import ReconciliationError
from taskqueue.models import ReconciliationReport
from taskqueue.reconciliation.identity import database_identity, schema_version
from taskqueue.reconciliation.reports import APPS, findings_of

FORMAT = 1
_SALT = "taskqueue.reconciliation.plan"


@dataclass(frozen=True, kw_only=True)
class PlannedRepair:
    rule: str
    repair: str
    table: str
    subject: Mapping[str, Any]
    before: Mapping[str, Any]
    expected: Any


@dataclass(frozen=True, kw_only=True)
class Plan:
    report: str
    database: str
    schema: Mapping[str, str]
    repairs: tuple[PlannedRepair, ...]


def plan_of(report: ReconciliationReport, *, rules: Collection[str] | None = None) -> dict[str, Any]:
    """As JSON: the repairs a program can make, and what is left for people, with what to do about it.

    Raises ``ReconciliationError`` for a rule that the report does not tell of.
    """
    unknown = sorted(set(rules or ()) - {result["rule"] for result in report.rules})
    if unknown:
        raise ReconciliationError("unknown_rule", f"the report {report.id} tells nothing of {', '.join(unknown)}")
    repairs, by_hand = [], []
    for finding in findings_of(report):
        if rules is not None and finding.rule not in rules:
            continue
        entry = {"rule": finding.rule, "table": finding.table, "subject": finding.subject}
        if finding.repair is None:
            by_hand.append({**entry, "observed": finding.observed, "guidance": finding.guidance})
        else:
            repairs.append({**entry, "repair": finding.repair, "before": finding.before, "expected": finding.expected})
    plan = {
        "format": FORMAT,
        "report": report.id,
        "snapshot_at": report.snapshot_at.isoformat(),
        "database": report.database,
        "schema": report.schema,
        "findings": report.findings_count,
        "repairs": repairs,
        "by_hand": by_hand,
    }
    return {**plan, "seal": _seal(plan)}


def read(path: Path) -> Any:
    """Raises ``ReconciliationError`` for a file that is none or no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ReconciliationError("unreadable_plan", f"{path} cannot be read as a plan: {error}") from error


def opened(value: Any, *, alias: str) -> Plan:
    """The plan, once it is known to be whole and of this very database and schema. Raises ``ReconciliationError``."""
    if not isinstance(value, dict) or not isinstance(value.get("seal"), str):
        raise ReconciliationError("not_a_plan", "this is no plan: `reconcile plan REPORT` writes one")
    if value.get("format") != FORMAT:
        raise ReconciliationError(
            "other_format", f"the plan has format {value.get('format')!r}, this program applies {FORMAT}; plan again"
        )
    plan = {name: item for name, item in value.items() if name != "seal"}
    if not constant_time_compare(value["seal"], _seal(plan)):
        raise ReconciliationError(
            "tampered",
            "the plan is not as it was written (its seal does not fit), or was written under another secret key; "
            "plan again, and choose with --rule what is to be repaired",
        )
    if plan["database"] != database_identity(alias):
        raise ReconciliationError("other_database", "the plan is of another database; run and plan on this one")
    if plan["schema"] != schema_version(alias, APPS):
        raise ReconciliationError(
            "other_schema", "the database was migrated since the report was written; run and plan again"
        )
    return Plan(
        report=plan["report"],
        database=plan["database"],
        schema=plan["schema"],
        repairs=tuple(PlannedRepair(**entry) for entry in plan["repairs"]),
    )


def _seal(plan: Mapping[str, Any]) -> str:
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return salted_hmac(_SALT, text, algorithm="sha256").hexdigest()
