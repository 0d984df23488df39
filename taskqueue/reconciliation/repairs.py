"""Applying a plan: each repair alone, under its row's lock, only while the row is still what the report saw."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connections, transaction
from django.db.utils import DatabaseError, OperationalError

from taskqueue import events, telemetry
from taskqueue.errors import ReconciliationError, RepairRefused
from taskqueue.models import Event
from taskqueue.reconciliation.findings import as_json
from taskqueue.reconciliation.plans import Plan, PlannedRepair
from taskqueue.reconciliation.rules import Order, Registry, Repair, registry
from taskqueue.text import message_of

EVENT_TYPE = "reconciliation.repaired"
CHANGED, NOT_FOUND, LOCKED, REFUSED = "changed", "not_found", "locked", "refused_by_database"
_LOCK_TIMEOUT = "10s"
_LOCK_STATES = frozenset({"55P03", "40P01"})  # a lock that is not given, a deadlock


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What came of one repair: ``code`` and ``message`` say why it was not made."""

    planned: PlannedRepair
    code: str | None = None
    message: str | None = None
    after: Mapping[str, Any] | None = None

    @property
    def done(self) -> bool:
        return self.code is None


def apply_plan(plan: Plan, *, actor: str, alias: str, known: Registry = registry) -> Iterator[Applied]:
    """Repair one after the other, each committed before the next is begun; what is refused stops no other.

    Raises ``ReconciliationError`` before the first one when the plan asks for a repair that no rule has.
    """
    repairs = [(planned, _repair_of(planned, known)) for planned in plan.repairs]
    for planned, repair in repairs:
        order = Order(
            rule=planned.rule, report=plan.report, subject=planned.subject, before=planned.before, actor=actor
        )
        applied = _apply(order, planned, repair, alias=alias)
        _tell(order, applied)
        yield applied


def unchanged(order: Order, now: Mapping[str, Any] | None) -> None:
    """Raises ``RepairRefused`` unless the locked row, of which ``now`` has the same names, is as the report saw it."""
    if now is None:
        raise RepairRefused(NOT_FOUND, "the row is gone")
    current = as_json(now)
    moved = sorted(name for name, value in order.before.items() if not _same(current.get(name), value))
    if moved:
        raise RepairRefused(CHANGED, f"{', '.join(moved)} changed since the report was written; reconcile again")


def _same(now: Any, before: Any) -> bool:
    """Large floats come back from jsonb as integers of as many digits."""
    match now, before:
        case float(), int() | float():
            return now == float(before)
        case list(), list():
            return len(now) == len(before) and all(map(_same, now, before))
        case _:
            return bool(now == before)


def _repair_of(planned: PlannedRepair, known: Registry) -> Repair:
    rule = known.rules.get(planned.rule)
    if rule is None or rule.repair is None or rule.repair.name != planned.repair:
        raise ReconciliationError(
            "unknown_repair", f"this program has no repair {planned.repair!r} of {planned.rule!r}; plan again"
        )
    return rule.repair


def _apply(order: Order, planned: PlannedRepair, repair: Repair, *, alias: str) -> Applied:
    try:
        with transaction.atomic(using=alias):
            with connections[alias].cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
            after = repair.apply(order)
            if not repair.recorded:
                Event.objects.using(alias).create(
                    type=EVENT_TYPE,
                    data={
                        "report": order.report,
                        "rule": order.rule,
                        "repair": repair.name,
                        "table": planned.table,
                        "subject": order.subject,
                        "before": order.before,
                        "after": as_json(after),
                        "actor": order.actor,
                    },
                )
    except RepairRefused as refused:
        return Applied(planned=planned, code=refused.code, message=str(refused))
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) not in _LOCK_STATES:
            raise
        return Applied(planned=planned, code=LOCKED, message="its row is locked by somebody else; apply again")
    except DatabaseError as error:
        # A constraint or trigger knows better than the rule. The others go on.
        return Applied(planned=planned, code=REFUSED, message=message_of(error))
    return Applied(planned=planned, after=as_json(after))


def _tell(order: Order, applied: Applied) -> None:
    telemetry.emit(
        events.REPAIRED if applied.done else events.REPAIR_REFUSED,
        report_id=order.report,
        rule=order.rule,
        repair=applied.planned.repair,
        table=applied.planned.table,
        code=applied.code,
        actor=order.actor,
    )
