"""A reconciliation from the read to the report: it cannot write, it tells all or nothing, it is bounded."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError, InternalError, OperationalError, ProgrammingError

from taskqueue.errors import ReconciliationError
from taskqueue.handlers import TaskContext
from taskqueue.in_process import drain_due
from taskqueue.models import ReconciliationReport, Task
from taskqueue.operations import enqueue
from taskqueue.reconciliation.findings import as_json
from taskqueue.reconciliation.handler import DryRun, dry_run
from taskqueue.reconciliation.reading import collect, one_view
from taskqueue.reconciliation.reports import findings_of, load, reconcile
from taskqueue.reconciliation.rules import Check, Found, Kind, Registry, Row, Rule, Severity, registry
from tests.support.sessions import sessions
from tests.support.tasks_in_state import STATES, task_in

pytestmark = pytest.mark.django_db(transaction=True)

RULE = Rule(
    name="test.rule",
    kind=Kind.MISSING,
    severity=Severity.ERROR,
    table="tasks",
    meaning="it holds.",
    arises="it is broken.",
    guidance="Mend it.",
)


def _each(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        yield Found(rule=RULE.name, subject={"id": row["id"]}, expected=0, observed=row["id"])


def _registry(statement: str, **values: Any) -> Registry:
    known = Registry()
    known.add(Check(rules=(RULE,), statement=statement, **{"judge": _each, **values}))
    return known


def _over_budget(count: int) -> None:
    for n in range(count):
        task_in("due", id=f"task_{n}", retry_count=2, max_retries=1)


def test_the_report_tells_counts_and_findings_and_nothing_else_changes() -> None:
    for state in STATES:
        task_in(state)
    _over_budget(1)
    before = list(Task.objects.order_by("id").values())

    report = reconcile(actor="ann")

    assert list(Task.objects.order_by("id").values()) == before
    assert report.findings_count == 1
    assert {result["rule"] for result in report.rules} == set(registry.rules)
    (finding,) = findings_of(load(report.id))
    assert (finding.rule, finding.subject, finding.before) == (
        "tasks.budget",
        {"id": "task_0"},
        {"status": "pending", "retry_count": 2, "max_retries": 1, "attempt": 0, "lost_count": 0},
    )
    assert report.snapshot_at <= report.finished_at


def test_findings_are_capped_and_their_true_number_told() -> None:
    _over_budget(5)
    report = reconcile(actor="ann", kept=2)
    assert (report.findings_count, len(report.findings)) == (5, 2)
    (budget,) = (result for result in report.rules if result["found"])
    assert budget == {"rule": "tasks.budget", "rows": 5, "found": 5, "kept": 2}


def test_only_the_rules_that_were_asked_for_are_run() -> None:
    _over_budget(1)
    assert reconcile(actor="ann", rules=["tasks.state"]).findings_count == 0
    with pytest.raises(ReconciliationError, match=r"there is no rule tasks.sate; the rules are tasks.budget, "):
        reconcile(actor="ann", rules=["tasks.sate"])


@pytest.mark.parametrize("statement", ["DELETE FROM tasks RETURNING id", "INSERT INTO tasks (task_type) VALUES ('x')"])
def test_a_rule_cannot_write(statement: str) -> None:
    task_in("due", id="a")
    with pytest.raises(InternalError, match="read-only transaction"), one_view("default", rule_seconds=60):  # noqa: SIM117
        with connection.cursor() as cursor:
            cursor.execute(statement)
    assert Task.objects.filter(id="a").exists()


def test_a_rule_whose_statement_writes_leaves_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    task_in("due", id="a")
    hidden = "SELECT setval(pg_get_serial_sequence('task_attempts', 'id'), 1)::text AS id"
    monkeypatch.setattr(registry, "_checks", _registry(hidden)._checks)
    with pytest.raises(InternalError, match="read-only transaction"):
        reconcile(actor="ann")
    assert not ReconciliationReport.objects.exists()


@pytest.fixture
def reader() -> Iterator[str]:
    """A role that may read everything, and write reports."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE reconciliation_reader")
        cursor.execute("GRANT USAGE ON SCHEMA public TO reconciliation_reader")
        cursor.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reconciliation_reader")
        cursor.execute("GRANT INSERT ON reconciliation_reports TO reconciliation_reader")
        cursor.execute("SET ROLE reconciliation_reader")
        yield "reconciliation_reader"
        cursor.execute("RESET ROLE")
        cursor.execute("DROP OWNED BY reconciliation_reader")
        cursor.execute("DROP ROLE reconciliation_reader")


def test_a_role_without_rights_to_what_is_checked_can_reconcile(reader: str) -> None:
    report = reconcile(actor=reader)
    assert report.findings_count == 0
    with pytest.raises(ProgrammingError, match="permission denied"):
        Task.objects.create(task_type="x")
    with pytest.raises(ProgrammingError, match="permission denied"):
        report.delete()


def test_a_failed_read_leaves_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    _over_budget(1)
    broken = Check(rules=(RULE,), statement="SELECT 1 / 0 AS id", judge=_each)
    monkeypatch.setattr(registry, "_checks", [*registry.checks(), broken])
    with pytest.raises(DatabaseError, match="division by zero"):
        reconcile(actor="ann")
    assert not ReconciliationReport.objects.exists()


def test_a_statement_that_takes_too_long_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_checks", _registry("SELECT pg_sleep(30)::text AS id")._checks)
    with pytest.raises(OperationalError, match="statement timeout"):
        reconcile(actor="ann", rule_seconds=0.05)
    assert not ReconciliationReport.objects.exists()


def test_a_check_of_many_scopes_takes_no_longer_than_its_time() -> None:
    slow = _registry(
        "SELECT pg_sleep(0.02)::text AS id WHERE %(scope)s > ''", each="SELECT n::text FROM generate_series(1, 500) n"
    )
    with pytest.raises(ReconciliationError, match="took too long") as raised, one_view("default", rule_seconds=60):
        collect("default", known=slow, rule_seconds=0.1)
    assert raised.value.code == "rule_timeout"


def test_whoever_is_told_to_stop_leaves_no_report() -> None:
    _over_budget(1)
    with pytest.raises(ReconciliationError) as raised:
        reconcile(actor="ann", stopping=lambda: True)
    assert raised.value.code == "stopped"
    assert not ReconciliationReport.objects.exists()


def test_it_refuses_to_run_in_a_transaction_of_the_caller() -> None:
    with pytest.raises(ReconciliationError, match="a transaction of its own"), transaction.atomic():
        reconcile(actor="ann")


def test_all_rules_see_one_instant() -> None:
    """A task that changes while the rules run is seen as it was at the first of them."""
    task_in("due", id="a")
    with sessions() as connect, one_view("default", rule_seconds=60):
        assert collect("default").found == 0
        connect().execute("UPDATE tasks SET retry_count = 2, max_retries = 1 WHERE id = 'a'")
        assert collect("default").found == 0
    assert reconcile(actor="ann").findings_count == 1


def test_a_check_for_each_scope_runs_once_for_each() -> None:
    known = _registry("SELECT %(scope)s || '!' AS id", each="SELECT unnest(ARRAY['a', 'b'])")
    with one_view("default", rule_seconds=60):
        assert [each.observed for each in collect("default", known=known).findings] == ["a!", "b!"]


def test_two_rules_of_one_name_are_refused() -> None:
    known = _registry("SELECT 1")
    with pytest.raises(ReconciliationError, match=r"'test\.rule' is declared twice"):
        known.add(Check(rules=(RULE,), statement="SELECT 2", judge=_each))


def test_the_task_writes_a_report_and_answers_its_id() -> None:
    _over_budget(1)
    result = dry_run(DryRun(rules=["tasks.budget"]), _context())
    report = ReconciliationReport.objects.get()
    assert result == {"report": report.id, "findings": 1}
    assert report.actor == "task task_9"


def test_the_task_stops_when_it_is_told_to() -> None:
    _over_budget(1)
    stop = threading.Event()
    stop.set()
    with pytest.raises(ReconciliationError, match="told to stop"):
        dry_run(None, _context(stop))


def test_secrets_are_not_in_the_report() -> None:
    task_in("due", id="task_1", retry_count=2, max_retries=1)
    task_in(
        "running", id="task_2", lease_until=datetime.now(UTC) - timedelta(hours=1), worker_id="token=hunter2hunter2"
    )
    report = reconcile(actor="ann")
    assert report.findings_count == 2
    assert "hunter2" not in json.dumps(report.findings)


def test_values_of_the_database_become_json_exactly() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert as_json(
        {"at": at, "n": Decimal("1.50"), "x": [1, None, True], "f": float("nan"), "big": Decimal("1E+3")}
    ) == {
        "at": "2026-01-02T03:04:05.678901+00:00",
        "n": "1.5",
        "x": [1, None, True],
        "f": "nan",
        "big": "1000",
    }


def _context(stop: threading.Event | None = None) -> TaskContext:
    return TaskContext(
        id="task_9",
        task_type="reconciliation.dry_run",
        attempt=1,
        retry_count=0,
        correlation_id="c",
        deadline=datetime.now(UTC) + timedelta(hours=1),
        stop=stop or threading.Event(),
    )


@pytest.mark.parametrize("payload", ["NULL", "'{}'", """'{"rules": ["tasks.budget"]}'"""])
def test_a_task_inserted_with_plain_sql_is_run_as_any_other(payload: str) -> None:
    _over_budget(1)
    Task.objects.update(embargo_until=datetime.now(UTC) + timedelta(hours=1))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO tasks (id, task_type, payload) VALUES ('nightly', 'reconciliation.dry_run', {payload})"  # noqa: S608
        )

    assert drain_due().succeeded == 1

    assert Task.objects.get(id="nightly").result == {"report": ReconciliationReport.objects.get().id, "findings": 1}


def test_a_task_that_names_an_unknown_rule_fails_with_its_code() -> None:
    enqueue("reconciliation.dry_run", {"rules": ["tasks.sate"]})

    drain_due()

    task = Task.objects.get()
    assert (task.error_code, task.status) == ("unknown_rule", "pending")
    assert "there is no rule tasks.sate" in (task.message or "")
