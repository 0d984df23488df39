"""Workers, pauses and events in the admin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from taskqueue.models import Event, QueueControl, Worker
from tests.taskqueue.admin.conftest import Visitor

ADMIN = "/admin/taskqueue/"
NOW = datetime.now(UTC)


def worker(**values: Any) -> Worker:
    given = {"id": "w_1", "host": "host-1", "pid": 42, "version": "1", "task_types": ["mail.send"], "slots": 16}
    made: Worker = Worker.objects.create(**{**given, **values})
    return made


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "working"),
        ({"draining": True}, "draining"),
        ({"beat_at": NOW - timedelta(minutes=10)}, "silent for"),
        ({"stopped_at": NOW}, "stopped"),
        ({"running": 3, "stuck": 1}, "3 of 16 in use, 1 stuck"),
        ({"listen_state": "lost"}, "lost, since"),
        ({"queues": ["mail", "slow"]}, "mail, slow"),
    ],
)
def test_worker_is_listed_with_its_condition(administrator: Client, values: dict[str, Any], said: str) -> None:
    worker(**values)
    assert said in administrator.get(f"{ADMIN}worker/").content.decode()
    assert administrator.get(f"{ADMIN}worker/w_5F1/change/").status_code == 200


@pytest.mark.parametrize("model", ["worker", "event"])
def test_rows_of_the_program_can_only_be_read(administrator: Client, model: str) -> None:
    worker()
    Event.objects.create(id="w_1", type="webhook.sent", data={})
    for form in ("add/", "w_5F1/delete/"):
        assert administrator.get(f"{ADMIN}{model}/{form}").status_code == 403
    assert administrator.post(f"{ADMIN}{model}/w_5F1/change/", {"host": "x", "type": "x"}).status_code == 403


def test_pause_knows_who_began_it_and_ends_by_deletion(administrator: Client) -> None:
    form = {"kind": "queue", "name": "mail", "reason": "the provider is down", "paused_by": "somebody else"}
    administrator.post(f"{ADMIN}queuecontrol/add/", form)
    pause = QueueControl.objects.get()
    assert (pause.name, pause.paused_by, pause.reason) == ("mail", "root", "the provider is down")
    assert administrator.post(f"{ADMIN}queuecontrol/{pause.pk}/change/", form).status_code == 403
    assert "already exists" in administrator.post(f"{ADMIN}queuecontrol/add/", form).content.decode()
    administrator.post(f"{ADMIN}queuecontrol/{pause.pk}/delete/", {"post": "yes"})
    assert not QueueControl.objects.exists()


@pytest.mark.parametrize("permission", ["view_queuecontrol", "delete_queuecontrol", "change_queuecontrol"])
def test_pausing_needs_its_right(visitor: Visitor, permission: str) -> None:
    client = visitor(permission)
    assert client.post(f"{ADMIN}queuecontrol/add/", {"kind": "queue", "name": "mail"}).status_code == 403
    assert not QueueControl.objects.exists()


def test_events_are_filtered_by_type_and_newest_first(administrator: Client) -> None:
    for number in range(3):
        Event.objects.create(id=f"evt_{number}", type="webhook.sent", data={"n": number})
    Event.objects.create(id="evt_9", type="experiment.created", data={})
    page = administrator.get(f"{ADMIN}event/?type=webhook.sent").content.decode()
    assert "evt_9" not in page
    assert page.index("evt_2") < page.index("evt_0")
    assert "?type=experiment.created" in page
    assert administrator.get(f"{ADMIN}event/?data__n=1").status_code == 400
    assert administrator.get(f"{ADMIN}event/?type=%00").status_code == 200


def test_event_shows_its_data_masked(administrator: Client) -> None:
    Event.objects.create(id="e", type="<b>x</b>", data={"token": "hunter2", "html": "<script>alert(1)</script>"})
    for address in (f"{ADMIN}event/", f"{ADMIN}event/e/change/"):
        page = administrator.get(address).content.decode()
        assert "hunter2" not in page
        assert "<script>alert" not in page
        assert "<b>x" not in page


def test_list_of_events_reads_an_index(administrator: Client) -> None:
    Event.objects.bulk_create(Event(type="webhook.sent", data={}) for _ in range(200))
    with CaptureQueriesContext(connection) as queries:
        administrator.get(f"{ADMIN}event/?type=webhook.sent")
    page = next(query["sql"] for query in queries if 'FROM "events"' in query["sql"] and "ORDER BY" in query["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {page}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "events_by_type" in plan
    assert "Seq Scan" not in plan
