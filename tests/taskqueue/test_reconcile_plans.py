"""Plans: sealed, of one database and schema, applied only while the rows are as they were."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings

from taskqueue.errors import ReconciliationError
from taskqueue.models import ReconciliationReport, Task, TaskTransition, Webhook
from taskqueue.operations import dead_letter
from taskqueue.reconciliation.plans import opened, plan_of, read
from taskqueue.reconciliation.repairs import apply_plan
from taskqueue.reconciliation.reports import findings_of, load, reconcile
from taskqueue.reconciliation.rules import Registry
from tests.support.damage import damage, drop, findings, repair
from tests.support.tasks_in_state import task_in


@pytest.fixture
def report(transactional_db: None) -> ReconciliationReport:
    """Two that can be repaired and one that cannot."""
    for name in ("a", "b"):
        task_in("due", id=name, retry_count=2, max_retries=1)
    task_in("running", id="c", retry_count=2, max_retries=1)
    return reconcile(actor="ann")


def test_a_plan_holds_repairs_with_their_before_values_and_what_is_left_to_people(
    report: ReconciliationReport,
) -> None:
    plan = json.loads(json.dumps(plan_of(report)))

    assert [entry["subject"] for entry in plan["repairs"]] == [{"id": "a"}, {"id": "b"}]
    assert plan["repairs"][0]["before"] == {
        "status": "pending",
        "retry_count": 2,
        "max_retries": 1,
        "attempt": 0,
        "lost_count": 0,
    }
    ((left),) = plan["by_hand"]
    assert left["subject"] == {"id": "c"}
    assert "resubmit" in left["guidance"]
    assert len(opened(plan, alias="default").repairs) == 2


def test_a_plan_of_chosen_rules_leaves_the_others_out(report: ReconciliationReport) -> None:
    assert plan_of(report, rules=["tasks.state"])["repairs"] == []
    with pytest.raises(ReconciliationError, match=r"tells nothing of tasks\.sate"):
        plan_of(report, rules=["tasks.sate"])


def _another_task(plan: dict[str, Any]) -> None:
    plan["repairs"][0]["subject"]["id"] = "x"


def _fewer(plan: dict[str, Any]) -> None:
    del plan["repairs"][0]


def _another_before(plan: dict[str, Any]) -> None:
    plan["repairs"][0]["before"]["retry_count"] = 3


def _another_database(plan: dict[str, Any]) -> None:
    plan["database"] = "0" * 32


@pytest.mark.parametrize("change", [_another_task, _fewer, _another_before, _another_database])
def test_a_plan_that_was_changed_is_refused(
    report: ReconciliationReport, change: Callable[[dict[str, Any]], None]
) -> None:
    plan = copy.deepcopy(plan_of(report))
    change(plan)
    with pytest.raises(ReconciliationError, match="its seal does not fit") as raised:
        opened(plan, alias="default")
    assert raised.value.code == "tampered"


def test_a_plan_under_another_secret_key_is_refused(report: ReconciliationReport) -> None:
    plan = plan_of(report)
    with override_settings(SECRET_KEY="another"), pytest.raises(ReconciliationError, match="another secret key"):
        opened(plan, alias="default")


@pytest.mark.parametrize(
    ("values", "code"),
    [({"database": "0" * 32}, "other_database"), ({"schema": {"taskqueue": "0001"}}, "other_schema")],
)
def test_a_plan_of_another_database_or_schema_is_refused(
    report: ReconciliationReport, values: dict[str, Any], code: str
) -> None:
    ReconciliationReport.objects.filter(pk=report.pk).update(**values)
    plan = plan_of(load(report.id))
    with pytest.raises(ReconciliationError) as raised:
        opened(plan, alias="default")
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("value", "code"),
    [([], "not_a_plan"), ({"repairs": []}, "not_a_plan"), ({"seal": "x", "format": 9}, "other_format")],
)
@pytest.mark.django_db
def test_what_is_no_plan_is_refused(value: object, code: str) -> None:
    with pytest.raises(ReconciliationError) as raised:
        opened(value, alias="default")
    assert raised.value.code == code


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(ReconciliationError, match="cannot be read as a plan"):
        read(tmp_path / "plan.json")
    with pytest.raises(ReconciliationError, match="cannot be read as a plan"):
        read(tmp_path / "none.json")


def test_a_report_of_another_format_or_none_is_refused(report: ReconciliationReport) -> None:
    ReconciliationReport.objects.update(format=9)
    for id, code in ((report.id, "other_format"), ("rec_x", "not_found"), ("\0", "not_found")):
        with pytest.raises(ReconciliationError) as raised:
            load(id)
        assert raised.value.code == code


def test_each_repair_stands_alone_and_is_refused_where_the_world_moved_on(report: ReconciliationReport) -> None:
    plan = opened(plan_of(report), alias="default")
    Task.objects.filter(id="a").update(retry_count=0)

    first, second = apply_plan(plan, actor="ann", alias="default")

    assert (first.code, second.code) == ("changed", None)
    assert "retry_count" in (first.message or "")
    assert Task.objects.get(id="a").status == "pending"
    assert Task.objects.get(id="b").status == "dead_lettered"
    assert TaskTransition.objects.get().actor == "ann"


def test_a_plan_applied_again_changes_nothing(report: ReconciliationReport) -> None:
    plan = opened(plan_of(report), alias="default")
    assert [each.code for each in apply_plan(plan, actor="ann", alias="default")] == [None, None]
    assert [each.code for each in apply_plan(plan, actor="ann", alias="default")] == ["changed", "changed"]
    assert TaskTransition.objects.count() == 2


def test_a_repair_of_a_row_that_is_gone_is_not_found(report: ReconciliationReport) -> None:
    plan = opened(plan_of(report), alias="default")
    Task.objects.all().delete()
    assert {each.code for each in apply_plan(plan, actor="ann", alias="default")} == {"not_found"}


def test_a_repair_that_no_rule_has_stops_the_plan_before_it_begins(report: ReconciliationReport) -> None:
    plan = opened(plan_of(report), alias="default")
    with pytest.raises(ReconciliationError) as raised:
        list(apply_plan(plan, actor="ann", alias="default", known=Registry()))
    assert raised.value.code == "unknown_repair"
    assert Task.objects.get(id="a").status == "pending"


@pytest.mark.django_db
def test_a_repair_that_the_database_refuses_stops_no_other() -> None:
    drop("tasks", "tasks_lease_while_running")
    for name in ("a", "b"):
        task_in("due", id=name)
    damage("UPDATE tasks SET worker_id = 'w' WHERE id IN ('a', 'b')")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE tasks ADD CONSTRAINT picky CHECK (id <> 'a' OR worker_id IS NOT NULL)")

    first, second = repair(*findings())

    assert (first.code, second.code) == ("refused_by_database", None)
    assert "picky" in (first.message or "")
    assert Task.objects.get(id="b").worker_id is None


@pytest.mark.django_db
def test_a_duplicate_stays_once_the_other_one_was_claimed() -> None:
    """Then it is the only task of its key that is still to be run."""
    drop("tasks", "tasks_one_pending_per_dedupe_key")
    for name in ("a", "b"):
        task_in("due", id=name, dedupe_key="k")
    (found,) = findings()
    dead_letter(Task.objects.filter(id="b"), actor="bob", reason="not wanted")

    (applied,) = repair(found)

    assert applied.code == "changed"
    assert Task.objects.get(id="a").status == "pending"


@pytest.mark.django_db
def test_a_delivery_stays_once_its_webhook_is_enabled_again() -> None:
    payload = {"url": "https://example.com", "webhook_id": "wh_1"}
    webhook = Webhook.objects.create(id="wh_1", url="https://example.com")
    damage("UPDATE webhooks SET disabled_at = now() - interval '2 h', disabled_reason = '410'")
    task_in("due", id="a", task_type="webhook.outbound", payload=payload)
    damage("UPDATE tasks SET embargo_until = now() - interval '2 h'")
    (found,) = findings(rules=["webhooks.settled"])
    Webhook.objects.filter(pk=webhook.pk).update(disabled_at=None, disabled_reason=None)

    (applied,) = repair(found)

    assert applied.code == "changed"
    assert Task.objects.get(id="a").status == "pending"


def test_findings_come_back_from_the_report_as_they_were(report: ReconciliationReport) -> None:
    assert [finding.subject["id"] for finding in findings_of(load(report.id))] == ["a", "b", "c"]
