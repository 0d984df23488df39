"""Reports of reconciliations in the admin: looked at, never changed."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from taskqueue.models import ReconciliationReport
from taskqueue.reconciliation.reading import collect
from taskqueue.reconciliation.reports import store
from tests.support.tasks_in_state import task_in
from tests.taskqueue.admin.conftest import Visitor

LIST = "/admin/taskqueue/reconciliationreport/"


@pytest.fixture
def report(db: None) -> ReconciliationReport:
    task_in("due", id="task_1<b>", retry_count=2, max_retries=1)
    return store(collect("default"), actor="command ann", database="d", schema={}, alias="default")


def _page(report: ReconciliationReport) -> str:
    return f"{LIST}{report.pk.replace('_', '_5F')}/change/"


def test_reports_are_listed_with_what_they_found(administrator: Client, report: ReconciliationReport) -> None:
    store(collect("default", rules=["tasks.state"]), actor="task task_1", database="d", schema={}, alias="default")
    page = administrator.get(LIST).content.decode()
    assert "1 found" in page
    assert "nothing found" in page
    assert "command ann" in page


def test_a_report_shows_its_rules_and_findings(administrator: Client, report: ReconciliationReport) -> None:
    page = administrator.get(_page(report)).content.decode()
    assert "<td>tasks.budget</td><td>1</td><td>1</td>" in page
    assert "task_1&lt;b&gt;" in page
    assert "task_1<b>" not in page


def test_a_report_can_only_be_read(administrator: Client, report: ReconciliationReport) -> None:
    for form in (f"{LIST}add/", _page(report).replace("change", "delete")):
        assert administrator.get(form).status_code == 403
    assert administrator.post(_page(report), {"actor": "x"}).status_code == 403


def test_who_may_view_reports_sees_them_and_nobody_else(visitor: Visitor, report: ReconciliationReport) -> None:
    assert visitor("view_reconciliationreport").get(_page(report)).status_code == 200
    assert visitor(name="bob").get(LIST).status_code == 403


def test_the_list_does_not_read_whole_findings(administrator: Client, report: ReconciliationReport) -> None:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        administrator.get(LIST)
    assert not any('"reconciliation_reports"."findings",' in query["sql"] for query in queries)
