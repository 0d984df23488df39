"""``manage.py reconcile``: what it prints, and what it ends with."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from taskqueue.models import ReconciliationReport, Task, TaskTransition
from taskqueue.reconciliation.rules import Check, registry
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db(transaction=True)


def _call(*arguments: object, exits: int = 0) -> str:
    out = StringIO()
    code = 0
    try:
        call_command("reconcile", *map(str, arguments), stdout=out)
    except CommandError as error:
        code = error.returncode
        out.write(str(error))
    except SystemExit as left:
        code = int(left.code or 0)
    assert code == exits, out.getvalue()
    return out.getvalue()


@pytest.fixture
def damaged() -> None:
    for name in ("a", "b"):
        task_in("due", id=name, retry_count=2, max_retries=1)


def _plan(folder: Path) -> Path:
    _call("run", exits=1)
    _call("plan", ReconciliationReport.objects.get().id, "-o", folder / "plan.json")
    return folder / "plan.json"


def test_a_healthy_database_ends_with_0() -> None:
    said = _call("run")
    report = ReconciliationReport.objects.get()
    assert said == f"{report.id}: {len(registry.rules)} rules, 0 findings\n"


def test_findings_are_told_and_end_with_1(damaged: None) -> None:
    said = _call("run", "--keep", 1, exits=1)
    first, capped, last = said.splitlines()
    assert first.startswith('error tasks.budget tasks {"id": "a"}: expected {"attempt": "below')
    assert capped == "tasks.budget: 2 found, 1 of them kept"
    assert last.endswith("rules, 2 findings")


def test_the_whole_report_as_json(damaged: None) -> None:
    told = json.loads(_call("run", "--json", "--rule", "tasks.budget", exits=1))
    assert told["report"] == ReconciliationReport.objects.get().id
    assert told["rules"] == [{"rule": "tasks.budget", "rows": 2, "found": 2, "kept": 2}]
    assert [finding["subject"]["id"] for finding in told["findings"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "exits", "said"),
    [
        (["run", "--rule", "tasks.sate"], 2, "unknown_rule: there is no rule tasks.sate"),
        (["run", "--keep", "-1"], 2, "--keep is 0 or more"),
        (["run", "--rule-seconds", "0"], 2, "--rule-seconds more than 0"),
        (["plan", "rec_x"], 1, "not_found: there is no report 'rec_x'"),
        (["apply", "/no/plan.json"], 1, "unreadable_plan: /no/plan.json cannot be read"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_code(arguments: list[str], exits: int, said: str) -> None:
    assert said in _call(*arguments, exits=exits)


def test_a_read_that_fails_ends_with_3_and_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    (first, *_) = registry.checks()
    broken = Check(rules=first.rules, statement="SELECT 1 / 0", judge=first.judge)
    monkeypatch.setattr(registry, "_checks", [broken])
    assert "read_failed: there is no report" in _call("run", exits=3)
    assert not ReconciliationReport.objects.exists()


def test_without_confirmation_nothing_is_repaired(damaged: None, tmp_path: Path) -> None:
    said = _call("apply", _plan(tmp_path), exits=1)
    assert 'would dead_letter_task tasks {"id": "a"} (tasks.budget)' in said
    assert "not_confirmed: nothing was changed; --confirm makes these 2 repairs" in said
    assert Task.objects.filter(status="pending").count() == 2


def test_a_confirmed_plan_is_applied_and_recorded(damaged: None, tmp_path: Path) -> None:
    said = _call("apply", _plan(tmp_path), "--confirm", "--actor", "ann")
    assert said.splitlines() == [
        'dead_letter_task tasks {"id": "a"}: done',
        'dead_letter_task tasks {"id": "b"}: done',
        "repaired: 2, refused: 0",
    ]
    assert set(TaskTransition.objects.values_list("actor", "event")) == {("ann", "dead_letter")}
    assert _call("run").endswith("0 findings\n")


def test_refused_repairs_are_told_and_end_with_1(damaged: None, tmp_path: Path) -> None:
    plan = _plan(tmp_path)
    Task.objects.filter(id="a").update(max_retries=5)
    said = _call("apply", plan, "--confirm", "--json", exits=1)
    first, second = (json.loads(line) for line in said.splitlines()[:2])
    assert (first["code"], second["code"]) == ("changed", None)
    assert second["after"] == {"status": "dead_lettered"}
    assert "repaired: 1, refused: 1" in said


def test_what_rows_say_moves_no_cursor(tmp_path: Path) -> None:
    task_in("due", id="a\x1b[2J\nb", retry_count=2, max_retries=1)
    said = _call("run", exits=1) + _call("apply", _plan_again(tmp_path), exits=1)
    assert "\x1b" not in said


def _plan_again(folder: Path) -> Path:
    _call("plan", ReconciliationReport.objects.get().id, "-o", folder / "plan.json")
    return folder / "plan.json"


def test_a_plan_is_printed_when_no_file_is_named(damaged: None) -> None:
    _call("run", exits=1)
    assert len(json.loads(_call("plan", ReconciliationReport.objects.get().id))["repairs"]) == 2


def test_a_plan_that_cannot_be_written_is_refused(damaged: None, tmp_path: Path) -> None:
    _call("run", exits=1)
    said = _call("plan", ReconciliationReport.objects.get().id, "-o", tmp_path / "no" / "plan.json", exits=1)
    assert "cannot be written" in said
