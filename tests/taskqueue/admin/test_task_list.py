"""The list of tasks: what it finds, what it costs, and what hostile rows and addresses do to it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from taskqueue.admin import selection
from taskqueue.models import Task
from tests.support.tasks_in_state import STATES, task_in

LIST = "/admin/taskqueue/task/"


def listed(client: Client, **parameters: str) -> list[str]:
    """Ids in the order shown."""
    page = client.get(LIST, parameters)
    assert page.status_code == 200, page
    return re.findall(r'name="_selected_action" value="([^"]*)"', page.content.decode())


def test_newest_task_comes_first(administrator: Client) -> None:
    for task_id in ("task_a", "task_c", "task_b"):
        task_in("due", id=task_id)
    assert listed(administrator) == ["task_c", "task_b", "task_a"]


@pytest.mark.parametrize("state", STATES)
def test_state_filter_finds_that_state_alone(administrator: Client, state: str) -> None:
    ids = {each: task_in(each).pk for each in STATES}
    assert listed(administrator, state=state) == [ids[state]]


def test_pending_covers_its_three_kinds(administrator: Client) -> None:
    ids = {task_in(each).pk: each for each in STATES}
    assert {ids[task_id] for task_id in listed(administrator, state="pending")} == {"due", "scheduled", "retrying"}


def test_filters_and_search_narrow_together(administrator: Client) -> None:
    wanted = task_in("dead", id="task_x1", task_type="a.b", queue="mail")
    task_in("dead", id="task_x2", task_type="a.b")
    task_in("dead", id="task_x3", queue="mail")
    task_in("due", id="task_x4", task_type="a.b", queue="mail")
    task_in("dead", id="task_y", task_type="a.b", queue="mail")
    assert listed(administrator, state="dead", type="a.b", queue="mail", q="task_x") == [wanted.pk]


def test_type_and_queue_of_pending_tasks_are_offered(administrator: Client) -> None:
    task_in("due", task_type="other.kind", queue="slow lane")
    page = administrator.get(LIST).content.decode()
    assert "?type=other.kind" in page
    assert "?queue=slow+lane" in page


@pytest.mark.parametrize("search", ["task_abc", "task_ab", "order-42", "key-7", "  task_abc  "])
def test_search_finds_id_prefix_correlation_id_and_pending_dedupe_key(administrator: Client, search: str) -> None:
    wanted = task_in("due", id="task_abc", correlation_id="order-42", dedupe_key="key-7")
    task_in("due", id="task_zzz", correlation_id="order-4", dedupe_key="key-77")
    assert listed(administrator, q=search) == [wanted.pk]


def test_search_finds_one_text_as_id_and_as_correlation_id(administrator: Client) -> None:
    task_in("success", id="parent")
    task_in("due", id="child", correlation_id="parent")
    assert set(listed(administrator, q="parent")) == {"parent", "child"}


def test_dedupe_key_of_a_finished_task_is_not_searched_and_the_page_says_so(administrator: Client) -> None:
    task_in("success", dedupe_key="key-7")
    assert listed(administrator, q="key-7") == []
    assert "dedupe key of a pending task" in administrator.get(LIST).content.decode()


@pytest.mark.parametrize("search", ["%", "_", "task\\", "'; DROP TABLE tasks; --", "\x00", "\U0010ffff", "x" * 5_000])
def test_strange_search_finds_nothing_and_breaks_nothing(administrator: Client, search: str) -> None:
    task_in("due", id="task_abc")
    assert listed(administrator, q=search) == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "\x00"},
        {"queue": "\x00"},
        {"before": "\x00"},
        {"state": "nonsense"},
        {"state": "", "type": "none.such"},
    ],
)
def test_strange_filter_finds_nothing_and_breaks_nothing(administrator: Client, parameters: dict[str, str]) -> None:
    task_in("due")
    assert listed(administrator, **parameters) == []


@pytest.mark.parametrize("lookup", ["payload__contains", "message__icontains", "id__regex", "attempts__traceback"])
def test_columns_cannot_be_searched_through_the_address(administrator: Client, lookup: str) -> None:
    assert administrator.get(LIST, {lookup: "x"}).status_code == 400


def test_order_cannot_be_changed_through_the_address(administrator: Client) -> None:
    for task_id in ("task_a", "task_b"):
        task_in("due", id=task_id)
    for column in range(9):
        assert listed(administrator, o=str(column)) == ["task_b", "task_a"]


def test_page_costs_few_queries_however_many_rows_it_shows(administrator: Client) -> None:
    for _ in range(50):
        task_in("dead", payload={"text": "x" * 1000})
    with CaptureQueriesContext(
        connection,
    ) as queries:
        administrator.get(LIST, {"state": "dead"})
    statements = [query["sql"] for query in queries]
    assert len([sql for sql in statements if "SAVEPOINT" not in sql]) <= 9, statements
    assert not any('"payload"' in sql or '"result"' in sql for sql in statements)
    assert not any("DISTINCT" in sql for sql in statements)


def test_hostile_texts_are_inert_and_secrets_masked(administrator: Client) -> None:
    task_in(
        "dead",
        id="task_<script>alert(1)</script>",
        task_type="<img src=x onerror=alert(2)>\u202egnp.exe",
        queue="q" * 180,
        message='<b>failed</b> with password="hunter2"',
    )
    page = administrator.get(LIST).content.decode()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "<b>failed" not in page
    assert "hunter2" not in page
    assert "<bdi" in page


def test_window_ends_the_search_and_the_page_leads_further_back(
    administrator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "WINDOW", 3)
    rare = task_in("success", id="task_1", task_type="rare")
    for number in range(2, 6):
        task_in("success", id=f"task_{number}")
    assert listed(administrator, type="rare") == []
    page = administrator.get(LIST, {"type": "rare"}).content.decode()
    assert "before=task_3" in page
    assert listed(administrator, type="rare", before="task_3") == [rare.pk]


def test_small_table_is_counted_exactly(administrator: Client) -> None:
    for _ in range(3):
        task_in("dead")
    assert "<span>3 tasks</span>" in administrator.get(LIST).content.decode()


def test_filtered_list_beyond_the_cap_says_more_than(administrator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskqueue.admin.bounded.REACHABLE", 100)
    Task.objects.bulk_create(Task(task_type="t", status="dead", finished_at=datetime.now(UTC)) for _ in range(130))
    page = administrator.get(LIST, {"state": "dead", "p": "2"}).content.decode()
    assert "more than 100 tasks" in page
    assert "before=" in page
    assert administrator.get(LIST, {"state": "dead", "p": "3"}).status_code == 302
