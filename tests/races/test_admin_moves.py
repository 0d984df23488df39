"""Two people press a button at the same moment: the row's lock decides, and the second is told what the state is."""

from __future__ import annotations

import html
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection, connections
from django.test import Client

from taskqueue.models import Task, TaskTransition
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "/admin/taskqueue/task/"
DEADLINE_SECONDS = 30.0
LONG_AGO = (datetime.now(UTC) - timedelta(days=1)).isoformat()


def client_of(name: str) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser(name))
    return client


def other_connection() -> psycopg.Connection[Any]:
    parameters = {
        key: value
        for key, value in connection.get_connection_params().items()
        if key not in ("cursor_factory", "context")
    }
    opened: psycopg.Connection[Any] = psycopg.connect(**parameters)
    return opened


def await_waiters(count: int) -> None:
    """Until as many sessions of this database wait for a lock."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            if cursor.fetchall()[0][0] >= count:
                return
            threading.Event().wait(0.02)
    raise AssertionError(f"{count} sessions should wait for a lock by now")


def at_once(task: Task, *requests: Callable[[], Any]) -> list[str]:
    """Run all requests against the row while it is locked, let go once all of them wait, and return their pages."""
    pages: dict[int, str] = {}

    def ask(place: int) -> None:
        try:
            pages[place] = html.unescape(requests[place]().content.decode())
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(requests))]
    with other_connection() as holder:
        holder.execute("SELECT FROM tasks WHERE id = %s FOR UPDATE", [task.pk])
        for thread in threads:
            thread.start()
        await_waiters(len(threads))
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert sorted(pages) == list(range(len(requests)))
    return [pages[place] for place in range(len(requests))]


def button(name: str, task: Task, move: str, **data: str) -> Callable[[], Any]:
    client = client_of(name)
    address = f"{LIST}{task.pk.replace('_', '_5F')}/move/{move}/"
    return lambda: client.post(address, data, follow=True)


def test_task_is_retried_once_when_two_people_retry_it() -> None:
    task = task_in("dead")
    pages = at_once(task, button("alice", task, "retry"), button("bob", task, "retry"))
    assert sorted("1 task retried." in page for page in pages) == [False, True]
    assert sorted("0 tasks retried. 1 refused" in page and "It is pending now." in page for page in pages) == [
        False,
        True,
    ]
    assert TaskTransition.objects.count() == 1


def test_either_the_retry_or_the_dead_letter_comes_first_and_both_are_told_the_truth() -> None:
    task = task_in("dead")
    reason = {"confirmed": "yes", "asked_at": LONG_AGO, "reason": "broken for good"}
    retried, set_aside = at_once(task, button("alice", task, "retry"), button("bob", task, "dead_letter", **reason))
    assert Task.objects.get().status == "dead_lettered"
    assert "1 task dead-lettered." in set_aside
    events = list(TaskTransition.objects.order_by("id").values_list("event", flat=True))
    if events == ["dead_letter"]:
        assert "terminal_state" in retried
        assert "It is dead-lettered now." in retried
    else:
        assert events == ["retry", "dead_letter"]
        assert "1 task retried." in retried


def test_form_of_resubmit_sent_twice_at_once_makes_one_copy() -> None:
    task = task_in("success")
    form = {"confirmed": "yes", "asked_at": LONG_AGO}
    pages = at_once(task, button("alice", task, "resubmit", **form), button("bob", task, "resubmit", **form))
    assert Task.objects.filter(origin_id=task.pk).count() == 1
    assert sorted("already_resubmitted" in page for page in pages) == [False, True]


def test_each_of_all_dead_tasks_moves_once_while_a_third_person_sets_ten_aside() -> None:
    tasks = [task_in("dead") for _ in range(500)]
    everything = {"action": "retry", "select_across": "1", "confirmed": "yes", "asked_at": LONG_AGO}
    ten = {"action": "dead_letter", "_selected_action": [task.pk for task in tasks[:10]], "reason": "broken"}

    def press(name: str, form: dict[str, Any]) -> Callable[[], Any]:
        client = client_of(name)
        return lambda: client.post(f"{LIST}?state=dead", {**everything, **form}, follow=True)

    requests = [press("alice", {}), press("bob", {}), press("carol", {**ten, "select_across": ""})]
    *retries, set_aside = at_once(tasks[0], *requests)
    moved = Counter(TaskTransition.objects.values_list("event", "actor"))
    made = Counter(TaskTransition.objects.values_list("event", "task_id"))
    assert max(made.values()) == 1
    assert Task.objects.filter(status="dead").count() == 0
    assert moved["dead_letter", "carol"] == Task.objects.filter(status="dead_lettered").count() == 10
    assert "10 tasks dead-lettered." in set_aside
    for name, page in zip(("alice", "bob"), retries, strict=True):
        count = moved["retry", name]
        assert f"{count} tasks retried." in page
        assert f"{500 - count} refused: " in page or count == 500
    assert moved["retry", "alice"] + moved["retry", "bob"] in (490, 500)
