"""``webhook.outbound`` from payload to answer, against a real receiver and with real rows."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from pytest_django import Settings
from standardwebhooks import Webhook as Verifier

from taskqueue import events
from taskqueue.errors import GiveUp, RetryLater, Snooze
from taskqueue.handlers import TaskContext, registry
from taskqueue.models import Event, Task, Webhook
from taskqueue.webhook.delivery import Courier
from taskqueue.webhook.handler import outbound, send
from taskqueue.webhook.payload import OutboundPayload
from taskqueue.webhook.signature import USER_AGENT
from taskqueue.webhook.verdict import DeliveryFailed
from tests.support.authority import Authority
from tests.support.deliveries import context_of, courier_of
from tests.support.receiver import Conversation, ReceivedRequest, Receiver, dripping, http, raw, reply, silent

pytestmark = pytest.mark.django_db

NEW = "whsec_bmV3LW5ldy1uZXctbmV3LW5ldy1uZXc="
OLD = "whsec_b2xkLW9sZC1vbGQtb2xkLW9sZC1vbGQ="


def webhook(url: str = "https://example.com/", **values: Any) -> Webhook:
    created: Webhook = Webhook.objects.create(**{"name": "hook", "url": url, **values})
    created.refresh_from_db()
    return created


def payload_of(url: str, **values: Any) -> OutboundPayload:
    return OutboundPayload.model_validate({"url": url, "body": {"a": 1}, **values})


def sent_events() -> list[dict[str, Any]]:
    return [event.data for event in Event.objects.filter(type="webhook.sent").order_by("created_at", "id")]


def receive(
    courier: Courier, context: TaskContext, receiver: Receiver, **values: Any
) -> tuple[dict[str, Any], ReceivedRequest]:
    result = send(payload_of(receiver.url("/hook"), **values), context, courier=courier)
    return result, receiver.requests[-1]


# What arrives


def test_request_arrives_with_identity_and_body(courier: Courier, context: TaskContext) -> None:
    with Receiver(reply(202, body=b"thanks")) as receiver:
        result, request = receive(courier, context, receiver, headers={"X-Mine": "yes"})
    assert (request.request_line, request.body) == ("POST /hook HTTP/1.1", b'{"a":1}')
    timestamp = int(request.headers.pop("webhook-timestamp"))
    assert abs(timestamp - datetime.now(UTC).timestamp()) < 60
    assert {name: value for name, value in request.headers.items() if name != "webhook-timestamp"} == {
        "host": f"127.0.0.1:{receiver.port}",
        "x-mine": "yes",
        "content-type": "application/json",
        "content-length": "7",
        "user-agent": USER_AGENT,
        "webhook-id": "task_0123",
        "x-correlation-id": "7d0c3c0e-order-42",
        "accept-encoding": "identity",
        "connection": "close",
    }
    assert result == {"status": 202, "duration_ms": result["duration_ms"], "body": "thanks", "body_cut": False}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_method_is_the_payloads(courier: Courier, context: TaskContext, method: str) -> None:
    with Receiver() as receiver:
        _, request = receive(courier, context, receiver, method=method, body=None)
    assert (request.method, request.body) == (method, b"")
    assert "content-type" not in request.headers


def test_given_content_type_stays(courier: Courier, context: TaskContext) -> None:
    with Receiver() as receiver:
        _, request = receive(courier, context, receiver, headers={"content-type": "text/csv"}, body="a,b\n1,é")
    assert (request.headers["content-type"], request.body) == ("text/csv", "a,b\n1,é".encode())


@pytest.mark.parametrize(
    "body",
    [
        {"z": "é", "control": "\x1b", "float": 1.0, "big": 10**20, "nested": {"b": 1, "a": [{}, None]}, "": None},
        {},
        [],
        "é\x1b as it is",
        1.0,
        10**20,
        False,
    ],
)
def test_signature_verifies_and_bytes_stay_the_same_at_every_attempt(courier: Courier, body: Any) -> None:
    hook = webhook(signing_secret=f"{NEW} {OLD}")
    with Receiver(reply(500), reply(200)) as receiver:
        task = Task.objects.create(
            task_type="webhook.outbound", payload={"url": receiver.url(), "body": body, "webhook_id": hook.id}
        )
        handler = registry.get("webhook.outbound")
        assert handler is not None
        for attempt in (1, 2):
            stored = handler.parse(Task.objects.get(pk=task.pk).payload)
            try:
                send(stored, context_of(id=task.id, attempt=attempt), courier=courier)
            except DeliveryFailed:
                assert attempt == 1
        first, second = receiver.requests
    assert first.body == second.body
    assert (first.body.decode() if isinstance(body, str) else json.loads(first.body)) == body
    for request in (first, second):
        assert request.headers["webhook-id"] == task.id
        assert len(request.headers["webhook-signature"].split(" ")) == 2
        for secret in (NEW, OLD):
            Verifier(secret).verify(request.body, request.headers, json_parse=False)
    changed = {name for name in first.headers if first.headers[name] != second.headers[name]}
    assert changed <= {"webhook-timestamp", "webhook-signature"}


def test_token_and_organization_come_from_the_webhook(courier: Courier, context: TaskContext) -> None:
    hook = webhook(auth_token="t0ken-t0ken", organization_id="o_1")
    with Receiver() as receiver:
        _, request = receive(courier, context, receiver, webhook_id=hook.id)
    assert request.headers["webhook-token"] == "t0ken-t0ken"
    assert "webhook-signature" not in request.headers
    assert Event.objects.get().organization_id == "o_1"


@pytest.mark.parametrize("values", [{"signing_secret": "whsec_a"}, {"auth_token": "new\r\nline"}])
def test_unusable_secret_fails_before_anything_is_sent(
    courier: Courier, context: TaskContext, values: dict[str, str]
) -> None:
    hook = webhook(**values)
    with Receiver() as receiver:
        with pytest.raises(DeliveryFailed) as failure:
            receive(courier, context, receiver, webhook_id=hook.id)
        assert not receiver.conversations
    assert failure.value.code == "webhook_misconfigured"


# What an answer means


@pytest.mark.parametrize(
    ("data", "kept", "cut"),
    [
        (http(200, [("Content-Type", "text/html")], b"<html>"), "<html>", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfour", "four", True),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" + http(200, body=b"late"), "late", False),
        (http(200, body=b"a\x00b\xff"), "a\ufffdb\ufffd", False),
        (http(200, body=b"y" * 100_000), "y" * 1024, True),
    ],
    ids=["html", "204", "short", "103", "binary", "long"],
)
def test_delivered_is_delivered_whatever_the_body(
    courier: Courier, context: TaskContext, data: bytes, kept: str, cut: bool
) -> None:
    with Receiver(raw(data)) as receiver:
        result, _ = receive(courier, context, receiver)
        assert len(receiver.conversations) == 1
    assert (result["body"], result["body_cut"]) == (kept, cut)
    (event,) = sent_events()
    assert (event["response"], event["error_code"]) == (kept, None)


def test_body_that_drips_does_not_undo_a_success(context: TaskContext) -> None:
    with Receiver(dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x")) as receiver:
        result, _ = receive(courier_of(deadline_seconds=0.3), context, receiver)
    assert (result["status"], result["body_cut"]) == (200, True)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_one_request_and_a_failure_that_names_the_target(
    courier: Courier, context: TaskContext, status: int
) -> None:
    with Receiver(reply(status, [("Location", "/login")]), reply(200)) as receiver:
        with pytest.raises(DeliveryFailed) as failure:
            receive(courier, context, receiver)
        assert len(receiver.conversations) == 1
    assert f"answered {status}, a redirect to {receiver.url('/login')}" in str(failure.value)
    assert "store the final address" in str(failure.value)


def test_failure_keeps_the_first_kilobyte_and_its_event(courier: Courier, context: TaskContext) -> None:
    with Receiver(reply(500, body=b"because " * 1000)) as receiver, pytest.raises(DeliveryFailed) as failure:
        receive(courier, context, receiver)
    kept = "because " * 128
    assert failure.value.code == "http_500"
    assert str(failure.value).endswith(f"answered 500; the answer begins: {kept}")
    (event,) = sent_events()
    assert event | {"duration_ms": 0, "request_headers": {}} == {
        "task_id": "task_0123",
        "attempt": 1,
        "webhook_id": None,
        "url": receiver.url("/hook"),
        "method": "POST",
        "status": 500,
        "duration_ms": 0,
        "error_code": "http_500",
        "error": str(failure.value),
        "request_headers": {},
        "response": kept,
        "response_cut": False,
    }


def test_busy_receiver_decides_when_to_come_back(courier: Courier, context: TaskContext) -> None:
    with Receiver(reply(503, [("Retry-After", "120")])) as receiver, pytest.raises(RetryLater) as verdict:
        receive(courier, context, receiver)
    assert (verdict.value.after_seconds, verdict.value.code) == (120.0, "http_503")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://10.0.0.1/", "address_refused"),
        ("http://169.254.169.254/latest/meta-data/", "address_refused"),
        ("http://2852039166/", "address_refused"),
        ("http://[::ffff:10.0.0.1]/", "address_refused"),
        ("http://[64:ff9b::10.0.0.1]/", "address_refused"),
    ],
)
def test_refused_address_gives_up_at_once(courier: Courier, context: TaskContext, url: str, code: str) -> None:
    with pytest.raises(GiveUp, match="not a public address") as verdict:
        send(payload_of(url), context, courier=courier)
    assert verdict.value.code == code
    (event,) = sent_events()
    assert (event["status"], event["error_code"]) == (None, "address_refused")


def test_name_server_trouble_is_tried_again(context: TaskContext) -> None:
    def broken(host: str) -> Sequence[str]:
        raise OSError(-3, "Temporary failure in name resolution")

    with pytest.raises(DeliveryFailed, match="Temporary failure") as failure:
        send(payload_of("https://hooks.example.com/"), context, courier=courier_of(resolver=broken))
    assert failure.value.code == "dns_failed"


# 410


def test_410_disables_the_webhook_and_ends_its_other_tasks_without_a_request(courier: Courier) -> None:
    gone, other = webhook(), webhook()
    with Receiver(reply(410), reply(200)) as receiver:
        with pytest.raises(GiveUp) as verdict:
            receive(courier, context_of(), receiver, webhook_id=gone.id)
        assert verdict.value.code == "gone"
        for number in range(5):
            with pytest.raises(GiveUp, match=r"was disabled .* nothing was sent: .* answered 410") as ended:
                receive(courier, context_of(id=f"task_{number}"), receiver, webhook_id=gone.id)
            assert ended.value.code == "webhook_disabled"
        assert len(receiver.requests) == 1
        receive(courier, context_of(), receiver, webhook_id=other.id)
        assert len(receiver.requests) == 2

        gone.refresh_from_db()
        assert gone.disabled_at is not None
        assert gone.disabled_reason == f"{receiver.url('/hook')} answered 410 (gone for good) to the task task_0123"
        Webhook.objects.filter(pk=gone.pk).update(disabled_at=None, disabled_reason=None)
        receive(courier, context_of(), receiver, webhook_id=gone.id)
        assert len(receiver.requests) == 3


def test_410_without_a_webhook_gives_up(courier: Courier, context: TaskContext) -> None:
    with Receiver(reply(410)) as receiver, pytest.raises(GiveUp) as verdict:
        receive(courier, context, receiver)
    assert verdict.value.code == "gone"


# Slow receivers


def test_timeouts_pause_the_webhook_and_an_answer_ends_the_streak(context: TaskContext) -> None:
    hook = webhook()
    slow = courier_of(deadline_seconds=0.15)
    with Receiver(silent(), silent(), silent(), reply(500)) as receiver:
        for _ in range(3):
            with pytest.raises(DeliveryFailed, match=r"no answer within 0\.15 s") as failure:
                receive(slow, context, receiver, webhook_id=hook.id)
            assert failure.value.code == "timeout"
        with pytest.raises(Snooze, match="paused"):
            receive(slow, context, receiver, webhook_id=hook.id)
        assert len(receiver.conversations) == 3
        Webhook.objects.filter(pk=hook.pk).update(paused_until=datetime.now(UTC) - timedelta(seconds=1))
        with pytest.raises(DeliveryFailed, match="answered 500"):
            receive(courier_of(), context, receiver, webhook_id=hook.id)
    hook.refresh_from_db()
    assert hook.timeout_streak == 0


def test_busy_destination_snoozes_without_a_request_or_an_event(context: TaskContext) -> None:
    courier = courier_of(limit=1)
    with Receiver() as receiver:
        with courier.destinations.slot(f"127.0.0.1:{receiver.port}"), pytest.raises(Snooze, match="busy"):
            receive(courier, context, receiver)
        assert not receiver.conversations
        assert sent_events() == []
        receive(courier, context, receiver)


# What is shown


def test_no_secret_is_in_messages_tracebacks_or_rows(courier: Courier, context: TaskContext) -> None:
    hook = webhook(auth_token="secret-token", signing_secret=NEW)
    headers = {"Authorization": "Bearer secret-bearer", "Cookie": "secret-cookie", "X-Api-Key": "secret-key"}

    def echo(conversation: Conversation) -> None:
        request = conversation.read_request()
        conversation.send(http(500, body=request.head + NEW.encode()))

    with Receiver(echo, reply(302, [("Location", "/?token=secret-query")]), raw(b"no http")) as receiver:
        url = receiver.url("/?token=secret-query").replace("http://", "http://user:secret-login@")
        told = []
        for _ in range(3):
            with pytest.raises(DeliveryFailed) as failure:
                send(payload_of(url, headers=headers, webhook_id=hook.id), context, courier=courier)
            told.append("".join(traceback.format_exception(failure.value)))
        assert receiver.requests[0].headers["authorization"] == "Bearer secret-bearer"
    told.append(json.dumps(sent_events()))
    for text in told:
        assert "secret-" not in text
        assert NEW not in text and NEW.removeprefix("whsec_") not in text
        assert "***" in text


def test_library_error_that_quotes_the_url_does_not_reach_the_traceback(
    courier: Courier, context: TaskContext, tmp_path: Path
) -> None:
    tls = Authority.create(tmp_path).server_context("127.0.0.1")
    with Receiver(tls=tls) as receiver:
        payload = payload_of(receiver.url("/?token=secret-query"))
        with pytest.raises(DeliveryFailed, match="not trusted") as failure:
            send(payload, context, courier=courier)
    told = "".join(traceback.format_exception(failure.value))
    assert "token=***" in told
    assert "secret-query" not in told


def test_every_attempt_is_emitted(courier: Courier, context: TaskContext) -> None:
    seen: list[dict[str, Any]] = []

    def listen(sender: object, data: dict[str, Any], **rest: Any) -> None:
        seen.append(data)

    events.WEBHOOK_SENT.signal.connect(listen)
    try:
        with Receiver(reply(500)) as receiver, pytest.raises(DeliveryFailed):
            receive(courier, context, receiver)
    finally:
        events.WEBHOOK_SENT.signal.disconnect(listen)
    (data,) = seen
    assert (data["status"], data["error_code"], data["correlation_id"]) == (500, "http_500", "7d0c3c0e-order-42")


# The registered handler


def test_registered_handler_obeys_the_settings(settings: Settings, context: TaskContext, tmp_path: Path) -> None:
    with Receiver() as receiver:
        payload = payload_of(receiver.url())
        settings.TASKQUEUE = {**settings.TASKQUEUE, "WEBHOOK_ALLOWED_NETWORKS": ()}
        with pytest.raises(GiveUp):
            outbound(payload, context)
        settings.TASKQUEUE = {**settings.TASKQUEUE, "WEBHOOK_ALLOWED_NETWORKS": ("127.0.0.0/8",)}
        assert outbound(payload, context)["status"] == 200
        settings.TASKQUEUE = {**settings.TASKQUEUE, "CA_BUNDLE": tmp_path / "missing.pem"}
        with pytest.raises(DeliveryFailed, match="additional authorities"):
            outbound(payload, context)


def test_handlers_are_registered_when_the_app_starts() -> None:
    for task_type in ("webhook.outbound", "turn.journeys_changed"):
        handler = registry.get(task_type)
        assert handler is not None
        assert handler.timeout_seconds == 30
        assert not handler.is_async


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_the_request_is_under_way(courier: Courier, context: TaskContext) -> None:
    hook = webhook()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    settings = connection.get_connection_params()
    settings.pop("cursor_factory", None)
    settings.pop("context", None)
    states: list[str] = []

    def look(conversation: Conversation) -> None:
        conversation.read_request()
        with psycopg.connect(**settings) as other:
            row = other.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone()
        assert row is not None
        states.append(row[0])
        conversation.send(http(200))

    with Receiver(look) as receiver:
        receive(courier, context, receiver, webhook_id=hook.id)
    assert states == ["idle"]


@pytest.mark.django_db(transaction=True)
def test_delivered_stays_delivered_when_the_event_cannot_be_written(courier: Courier, context: TaskContext) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE events ADD CONSTRAINT events_full CHECK (false) NOT VALID")
    try:
        with Receiver(reply(200), reply(500)) as receiver:
            result, _ = receive(courier, context, receiver)
            with pytest.raises(DeliveryFailed, match="answered 500"):
                receive(courier, context, receiver)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE events DROP CONSTRAINT events_full")
    assert result["status"] == 200
    assert "events_full" in result["not_recorded"]
