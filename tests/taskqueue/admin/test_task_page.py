"""The page of one task: what it shows of hostile, huge and secret things, and what it costs."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from taskqueue.admin.json_text import LONGEST_PAGE, readable
from taskqueue.admin.task_page import MOST_ATTEMPTS
from taskqueue.models import QueueControl, Task, TaskAttempt, TaskTransition
from tests.support.tasks_in_state import task_in
from tests.taskqueue.admin.conftest import Visitor

NOW = datetime.now(UTC)


def page_of(client: Client, task: Task) -> str:
    answer = client.get(f"/admin/taskqueue/task/{task.pk.replace('_', '_5F').replace('/', '_2F')}/change/")
    assert answer.status_code == 200, answer
    return answer.content.decode()


def shown_json(page: str) -> list[str]:
    return [html.unescape(found) for found in re.findall(r'<pre class="tq-json"[^>]*>(.*?)</pre>', page, re.DOTALL)]


def with_payload(literal: str, **values: Any) -> Task:
    """A task whose payload is exactly this JSON, as another program may write it."""
    task = task_in("dead", **values)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tasks SET payload = %s::jsonb WHERE id = %s", [literal, task.pk])
    return task


def attempt(task: Task, number: int, **values: Any) -> TaskAttempt:
    given = {"worker_id": "w", "started_at": NOW, "finished_at": NOW + timedelta(seconds=2), "outcome": "failed"}
    made: TaskAttempt = TaskAttempt.objects.create(task=task, attempt=number, **{**given, **values})
    return made


def test_person_without_the_right_to_view_sees_nothing(visitor: Visitor) -> None:
    task = task_in("dead")
    client = visitor()
    assert client.get("/admin/taskqueue/task/").status_code == 403
    assert client.get(f"/admin/taskqueue/task/{task.pk.replace('_', '_5F')}/change/").status_code == 403


@pytest.mark.parametrize("method", ["change", "delete"])
def test_task_cannot_be_written_or_deleted_by_a_form(administrator: Client, method: str) -> None:
    task = task_in("dead")
    answer = administrator.post(f"/admin/taskqueue/task/{task.pk.replace('_', '_5F')}/{method}/", {"status": "pending"})
    assert answer.status_code == 403
    assert administrator.get("/admin/taskqueue/task/add/").status_code == 403
    assert Task.objects.get().status == "dead"


@pytest.mark.parametrize("task_id", ["none", "%00", "a%2Fb", "_5F", "x" * 3_000])
def test_missing_task_leads_back_with_a_message(administrator: Client, task_id: str) -> None:
    answer = administrator.get(f"/admin/taskqueue/task/{task_id}/change/", follow=True)
    assert answer.status_code == 200
    assert "exist. Perhaps it was deleted" in answer.content.decode()


@pytest.mark.parametrize("task_id", ["a/b", "with space", "_5F", "<b>x</b>", "q?x=1&y", "é\u202e", "..", "50%"])
def test_task_with_a_strange_id_has_a_page_and_a_link_to_it(administrator: Client, task_id: str) -> None:
    task_in("due", id=task_id)
    page = administrator.get("/admin/taskqueue/task/").content.decode()
    link = re.search(r'<a href="([^"]*/change/)"', page)
    assert link is not None
    answer = administrator.get(html.unescape(link[1]))
    assert answer.status_code == 200
    assert html.escape(task_id) in answer.content.decode()


def test_secrets_of_payload_result_message_and_traceback_are_masked(administrator: Client) -> None:
    task = task_in(
        "dead",
        payload={"url": "https://bob:hunter2@h/", "headers": {"Authorization": "Bearer hunter2hunter2"}},
        result={"note": "password=hunter2"},
        message="refused: api_key='hunter2'",
    )
    attempt(task, 1, message="token=hunter2", traceback='x = {"password": "hunter2"}')
    TaskTransition.objects.create(
        task=task, from_status="dead", to_status="dead", event="retry", actor="a", reason="password=hunter2"
    )
    page = page_of(administrator, task)
    assert "hunter2" not in page
    assert "***" in page


def test_hostile_texts_are_inert(administrator: Client) -> None:
    evil = "<script>alert(1)</script>\u202e"
    task = task_in("dead", payload={evil: evil}, result=evil, message=evil, task_type=evil, queue=evil, error_code=evil)
    attempt(task, 1, message=evil, traceback=evil, error_code=evil, worker_id=evil)
    TaskTransition.objects.create(task=task, from_status="dead", to_status="dead", event="x", actor=evil, reason=evil)
    QueueControl.objects.create(kind="queue", name=evil, paused_by=evil, reason=evil)
    page = page_of(administrator, task)
    assert "<script>alert" not in page
    assert all("\u202e" not in shown for shown in shown_json(page))
    marks = [found.start() for found in re.finditer("\u202e", page)]
    assert marks
    assert all(page.rfind("<bdi", 0, mark) > page.rfind("</bdi", 0, mark) for mark in marks)


def test_pages_stay_within_the_content_security_policy(administrator: Client) -> None:
    page = page_of(administrator, task_in("dead"))
    assert re.findall(r"<(?:script|style)(?![^>]*\bsrc=)[^>]*>", page) == []
    assert re.findall(r"\s(?:style|on[a-z]+)=", page) == []
    header = administrator.get("/admin/taskqueue/task/").headers["Content-Security-Policy"]
    assert "default-src 'self'" in header
    assert "unsafe" not in header


@pytest.mark.parametrize(
    "literal",
    [
        '{"blob": "' + "x" * 1_000_000 + '"}',
        "[" + ",".join(['"<<<<>>>>&&&&"'] * 70_000) + "]",
        "[" * 3_000 + "]" * 3_000,
        '{"number": ' + "9" * 5_000 + "}",
        '"' + "'" * 900_000 + '"',
        '{"' + "k" * 500_000 + '": 1}',
    ],
    ids=["long text", "many items", "deep", "long number", "quotes", "long key"],
)
def test_huge_payload_makes_a_small_page_and_says_that_it_is_cut(administrator: Client, literal: str) -> None:
    page = page_of(administrator, with_payload(literal))
    assert len(page) < 10 * LONGEST_PAGE
    assert re.search(r"Cut: it is|more characters|nested too deep|9…", page)


def test_payload_too_large_to_read_whole_is_cut_and_masked(administrator: Client) -> None:
    page = page_of(administrator, with_payload('{"password": "hunter2", "z": "' + "x" * 2_500_000 + '"}'))
    assert "hunter2" not in page
    assert "Cut: it is 2,500,0" in page
    assert len(page) < 10 * LONGEST_PAGE


@pytest.mark.parametrize("literal", ["null", "0", '""', "[]", "{}", "true", '"text"', "1.10", "12345678901234567890.5"])
def test_number_and_other_scalars_are_shown_as_they_are_stored(administrator: Client, literal: str) -> None:
    assert shown_json(page_of(administrator, with_payload(literal)))[0] == literal


def test_json_is_indented_and_marks_of_direction_are_spelled_out() -> None:
    shown = readable('{"a": ["x\u202ey", 1.50], "b": {}}').text
    assert shown == '{\n  "a": [\n    "x\\u202ey",\n    1.50\n  ],\n  "b": {}\n}'


def test_attempts_are_listed_newest_first_with_their_tracebacks_folded(administrator: Client) -> None:
    task = task_in("dead")
    for number in (1, 2):
        attempt(task, number, message=f"failure {number}", traceback="Traceback of it")
    page = page_of(administrator, task)
    assert page.index("failure 2") < page.index("failure 1")
    assert page.count("<details><summary>Traceback") == 2


def test_thousands_of_attempts_cost_a_bounded_page(administrator: Client) -> None:
    task = task_in("dead")
    TaskAttempt.objects.bulk_create(
        TaskAttempt(
            task=task,
            attempt=number,
            worker_id="w",
            started_at=NOW,
            finished_at=NOW,
            outcome="snoozed",
            message="'" * 4_000,
            traceback="'" * 16_000,
        )
        for number in range(1, 1_001)
    )
    page = page_of(administrator, task)
    assert f"Only the newest {MOST_ATTEMPTS}" in page
    assert len(page) < 2_000_000


def test_page_costs_few_queries_however_much_happened(administrator: Client) -> None:
    task = task_in("dead")
    for number in range(1, 20):
        attempt(task, number)
        TaskTransition.objects.create(task=task, from_status="dead", to_status="dead", event="retry", actor="a")
    with CaptureQueriesContext(connection) as queries:
        page_of(administrator, task)
    statements = [query["sql"] for query in queries if "SAVEPOINT" not in query["sql"]]
    assert len(statements) <= 8, statements


def test_pending_task_says_that_its_queue_is_paused(administrator: Client) -> None:
    QueueControl.objects.create(kind="queue", name="mail", paused_by="bob", reason="the provider is down")
    page = page_of(administrator, task_in("due", queue="mail"))
    assert "the provider is down" in page
    assert "the provider is down" not in page_of(administrator, task_in("due"))


def test_correlation_id_leads_to_its_tasks(administrator: Client) -> None:
    task = task_in("dead", correlation_id="order 42&x")
    other = task_in("due", correlation_id="order 42&x")
    link = re.search(r'href="(/admin/taskqueue/task/\?q=[^"]*)"', page_of(administrator, task))
    assert link is not None
    found = administrator.get(html.unescape(link[1])).content.decode()
    assert other.pk in found
    assert task.pk in found
