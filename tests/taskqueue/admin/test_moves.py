"""Moves through the admin: who may make them, on what, what the page says, and what is recorded."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from taskqueue.models import Task, TaskTransition
from tests.support.tasks_in_state import STATES, task_in
from tests.taskqueue.admin.conftest import Visitor

LIST = "/admin/taskqueue/task/"
MOVES = ("retry", "run_now", "dead_letter", "resubmit")
POSSIBLE = {
    "retry": {"dead"},
    "run_now": {"due", "scheduled", "retrying"},
    "dead_letter": {"due", "scheduled", "retrying", "dead"},
    "resubmit": {"success", "dead", "dead_lettered"},
}
EPOCH = datetime(2020, 1, 1, tzinfo=UTC).isoformat()
# The database's clock stands still within a test's transaction, so an earlier time asks for a copy that is not there.
YES = {"confirmed": "yes", "asked_at": EPOCH, "reason": "no longer wanted"}


def page_of(task: Task) -> str:
    return f"{LIST}{task.pk.replace('_', '_5F')}/change/"


def press(client: Client, task: Task, move: str, **data: str) -> Any:
    return client.post(f"{LIST}{task.pk.replace('_', '_5F')}/move/{move}/", data, follow=True)


def act(client: Client, move: str, *tasks: Task, query: str = "", **data: str) -> Any:
    chosen = {"action": move, "_selected_action": [task.pk for task in tasks], **data}
    return client.post(f"{LIST}{query}", chosen, follow=True)


def text(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def status_of(task: Task) -> str:
    return Task.objects.get(pk=task.pk).status


@pytest.mark.parametrize("move", MOVES)
def test_stranger_is_sent_to_the_login_and_moves_nothing(db: None, move: str) -> None:
    task = task_in("dead")
    assert Client().post(f"{LIST}{task.pk.replace('_', '_5F')}/move/{move}/", YES).status_code == 302
    assert Client().post(LIST, {"action": move, "_selected_action": task.pk, **YES}).status_code == 302
    assert (status_of(task), TaskTransition.objects.count(), Task.objects.count()) == ("dead", 0, 1)


@pytest.mark.parametrize(
    "permissions", [(), ("view_task",), ("retry_task", "run_now_task", "dead_letter_task", "resubmit_task")]
)
@pytest.mark.parametrize("move", MOVES)
def test_move_needs_its_own_right_and_the_right_to_view(
    visitor: Visitor, move: str, permissions: tuple[str, ...]
) -> None:
    task = task_in("dead")
    client = visitor(*permissions)
    assert press(client, task, move, **YES).status_code == 403
    act(client, move, task, **YES)
    assert (status_of(task), TaskTransition.objects.count(), Task.objects.count()) == ("dead", 0, 1)


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("right", MOVES)
def test_right_to_one_move_is_no_right_to_another(visitor: Visitor, right: str, move: str) -> None:
    task = task_in("due" if move == "run_now" else "dead")
    client = visitor("view_task", f"{right}_task")
    answer = press(client, task, move, **YES)
    assert answer.status_code == (200 if right == move else 403)
    assert TaskTransition.objects.count() == (1 if right == move else 0)


@pytest.mark.parametrize("state", STATES)
def test_page_offers_what_the_state_allows(administrator: Client, state: str) -> None:
    page = administrator.get(page_of(task_in(state))).content.decode()
    offered = set(re.findall(r"/move/(\w+)/", page))
    assert offered == {move for move in MOVES if state in POSSIBLE[move]}


def test_page_offers_only_what_the_person_may(visitor: Visitor) -> None:
    page = visitor("view_task", "retry_task").get(page_of(task_in("dead"))).content.decode()
    assert re.findall(r"/move/(\w+)/", page) == ["retry"]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("move", MOVES)
def test_move_happens_exactly_where_the_lifecycle_allows(administrator: Client, move: str, state: str) -> None:
    task = task_in(state)
    before = Task.objects.filter(pk=task.pk).values().get()
    said = text(press(administrator, task, move, **YES))
    if state in POSSIBLE[move]:
        assert TaskTransition.objects.get(task=task).event == move
        assert "1 task " in said
    else:
        assert Task.objects.filter(pk=task.pk).values().get() == before
        assert Task.objects.count() == 1
        assert "1 refused" in said
        assert "It is " in said


@pytest.mark.parametrize("move", MOVES)
def test_looking_at_a_moves_address_moves_nothing(administrator: Client, move: str) -> None:
    task = task_in("dead")
    assert administrator.get(f"{LIST}{task.pk.replace('_', '_5F')}/move/{move}/").status_code == 405
    assert status_of(task) == "dead"


def test_move_without_the_forms_token_is_refused(administrator: Client) -> None:
    task = task_in("dead")
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = administrator.cookies
    assert strict.post(f"{LIST}{task.pk.replace('_', '_5F')}/move/retry/").status_code == 403
    assert strict.post(LIST, {"action": "retry", "_selected_action": task.pk}).status_code == 403
    assert status_of(task) == "dead"


def test_unknown_move_and_missing_task_are_not_found(administrator: Client) -> None:
    task = task_in("dead")
    assert press(administrator, task, "complete", **YES).status_code == 404
    assert administrator.post(f"{LIST}none/move/retry/", YES).status_code == 404
    assert administrator.post(f"{LIST}%00/move/retry/", YES).status_code == 404


def test_dead_lettering_asks_for_a_reason_and_keeps_it(administrator: Client) -> None:
    task = task_in("dead")
    asked = text(press(administrator, task, "dead_letter"))
    assert 'name="reason"' in asked
    assert "Say why" in text(press(administrator, task, "dead_letter", confirmed="yes", asked_at=EPOCH, reason="  "))
    assert status_of(task) == "dead"
    press(administrator, task, "dead_letter", **YES)
    assert status_of(task) == "dead_lettered"
    moved = TaskTransition.objects.get()
    assert (moved.actor, moved.reason) == ("root", "no longer wanted")
    assert "no longer wanted" in LogEntry.objects.get().change_message


def test_resubmitting_says_first_that_webhooks_get_a_new_id(administrator: Client) -> None:
    task = task_in("success")
    asked = text(press(administrator, task, "resubmit"))
    assert "Webhooks that it sends carry the new id" in asked
    assert Task.objects.count() == 1


def test_resubmitted_task_and_its_copy_lead_to_each_other(administrator: Client) -> None:
    task = task_in("success")
    press(administrator, task, "resubmit", **YES)
    copy = Task.objects.get(origin_id=task.pk)
    assert page_of(copy) in administrator.get(page_of(task)).content.decode()
    assert page_of(task) in administrator.get(page_of(copy)).content.decode()
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.is_addition()) == (copy.pk, True)


def test_form_of_resubmit_sent_twice_makes_one_copy(administrator: Client) -> None:
    task = task_in("success")
    press(administrator, task, "resubmit", **YES)
    said = text(press(administrator, task, "resubmit", **YES))
    assert Task.objects.filter(origin_id=task.pk).count() == 1
    assert "already_resubmitted" in said
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    press(administrator, task, "resubmit", confirmed="yes", asked_at=later)
    assert Task.objects.filter(origin_id=task.pk).count() == 2


@pytest.mark.parametrize("asked_at", ["", "yesterday", "2026-13-45", "9" * 400, "2026-01-01T00:00:00"])
def test_resubmit_with_a_spoilt_form_asks_again(administrator: Client, asked_at: str) -> None:
    task = task_in("success")
    assert "are you sure" in text(press(administrator, task, "resubmit", confirmed="yes", asked_at=asked_at))
    assert Task.objects.count() == 1


def test_second_person_is_told_the_state_there_is_now(administrator: Client) -> None:
    task = task_in("dead")
    press(administrator, task, "retry")
    said = text(press(administrator, task, "retry"))
    assert "0 tasks retried. 1 refused" in said
    assert "invalid_transition" in said
    assert "It is pending now." in said


def test_ticked_tasks_move_and_the_refused_are_counted_by_code(administrator: Client) -> None:
    tasks = [task_in(state) for state in ("dead", "dead", "running", "success", "scheduled")]
    gone = task_in("dead")
    Task.objects.filter(pk=gone.pk).delete()
    said = text(act(administrator, "retry", *tasks, gone))
    assert "2 tasks retried. 4 refused" in said
    assert "2 not possible in their state (invalid_transition)" in said
    assert "1 not there any more (not_found)" in said
    assert "1 ended for good, nothing moves them (terminal_state)" in said
    assert "Now: 1 running, 1 scheduled, 1 success." in said
    assert LogEntry.objects.count() == 2


def test_ticked_task_that_left_the_list_meanwhile_is_refused_with_its_state(administrator: Client) -> None:
    task = task_in("success")
    assert "It is success now." in text(act(administrator, "retry", task, query="?state=dead"))


def test_superseded_retry_is_refused_in_words(administrator: Client) -> None:
    task_in("due", dedupe_key="k")
    task = task_in("dead", dedupe_key="k")
    assert "a pending task holds the same dedupe key (superseded)" in text(act(administrator, "retry", task))


def test_all_that_match_move_and_no_others(administrator: Client) -> None:
    wanted = [task_in("dead", queue="mail") for _ in range(3)]
    others = [task_in("dead"), task_in("running", queue="mail"), task_in("success", queue="mail")]
    before = [status_of(task) for task in others]
    asked = text(act(administrator, "retry", query="?queue=mail", select_across="on"))
    assert "<strong>3</strong> dead" in asked
    assert {status_of(task) for task in wanted} == {"dead"}
    said = text(act(administrator, "retry", query="?queue=mail", select_across="1", confirmed="yes", asked_at=EPOCH))
    assert "3 tasks retried." in said
    assert {status_of(task) for task in wanted} == {"pending"}
    assert [status_of(task) for task in others] == before


def test_all_that_match_reach_behind_the_window_of_the_list(
    administrator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskqueue.admin.selection.WINDOW", 2)
    old = task_in("dead", id="task_1", task_type="rare")
    for number in range(2, 6):
        task_in("dead", id=f"task_{number}")
    act(administrator, "retry", query="?state=dead&type=rare", select_across="1", confirmed="yes", asked_at=EPOCH)
    assert status_of(old) == "pending"
    assert TaskTransition.objects.count() == 1


def test_search_that_cannot_be_read_selects_nothing(administrator: Client) -> None:
    task = task_in("dead")
    act(administrator, "retry", query="?q=%00", select_across="1", confirmed="yes", asked_at=EPOCH)
    assert status_of(task) == "dead"


def test_more_than_one_request_moves_are_left_and_said(administrator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskqueue.admin.moves.MOST_AT_ONCE", 3)
    for _ in range(2):
        task_in("due")
    for _ in range(3):
        task_in("dead")
    said = text(act(administrator, "dead_letter", select_across="1", **YES))
    assert "3 tasks dead-lettered. There are more" in said
    assert Task.objects.filter(status="dead_lettered").count() == 3
    said = text(act(administrator, "dead_letter", select_across="1", **YES))
    assert "2 tasks dead-lettered." in said
    assert "There are more" not in said


def test_resubmitting_more_than_one_form_can_guard_is_refused(
    administrator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskqueue.admin.moves.MOST_COPIES", 2)
    for _ in range(3):
        task_in("success")
    assert "narrow the list" in text(act(administrator, "resubmit", select_across="1"))
    assert "narrow the list" in text(act(administrator, "resubmit", select_across="1", **YES))
    assert Task.objects.count() == 3


def test_history_gets_one_entry_for_very_many_tasks(administrator: Client) -> None:
    for _ in range(101):
        task_in("dead")
    act(administrator, "retry", query="?state=dead", select_across="1", confirmed="yes", asked_at=EPOCH)
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.object_repr) == (None, "101 tasks")
    assert "state=dead" in entry.change_message
    assert TaskTransition.objects.filter(actor="root").count() == 101


def test_action_without_a_choice_moves_nothing_and_says_so(administrator: Client) -> None:
    task = task_in("dead")
    said = text(administrator.post(LIST, {"action": "retry", "index": "0"}, follow=True))
    assert "Items must be selected" in said
    assert status_of(task) == "dead"


def test_endless_reason_is_cut(administrator: Client) -> None:
    task = task_in("dead")
    press(administrator, task, "dead_letter", **{**YES, "reason": "x\x00" * 100_000})
    assert TaskTransition.objects.get().reason == "x" * 1_000


@pytest.mark.parametrize("move", MOVES)
def test_page_that_asks_first_is_escaped_and_without_scripts_of_its_own(administrator: Client, move: str) -> None:
    evil = "<script>alert(1)</script>"
    task = task_in("dead", id=evil, task_type=evil)
    page = administrator.post(f"{LIST}?q={evil}", {"action": move, "_selected_action": task.pk, "reason": evil})
    assert "<script>alert" not in page.content.decode()
    assert re.findall(r"<(?:script|style)(?![^>]*\bsrc=)[^>]*>", page.content.decode()) == []
