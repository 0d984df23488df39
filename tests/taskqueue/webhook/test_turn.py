"""``turn.journeys_changed``: the stored list of journeys follows the service's, and never a broken answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskqueue.errors import GiveUp
from taskqueue.handlers import TaskContext
from taskqueue.models import Event, Webhook
from taskqueue.webhook.delivery import Courier
from taskqueue.webhook.turn import ANSWER_LIMIT_BYTES, EVENT_TYPE, JourneysChanged, refresh, stored
from taskqueue.webhook.verdict import DeliveryFailed
from tests.support.deliveries import courier_of
from tests.support.receiver import Receiver, raw, reply

pytestmark = pytest.mark.django_db

JOURNEYS = [{"uuid": "a", "name": "Welcome"}, {"uuid": "b", "name": "Zoë"}]


@pytest.fixture
def courier() -> Courier:
    return courier_of(body_limit_bytes=ANSWER_LIMIT_BYTES)


def webhook(receiver: Receiver, **values: Any) -> Webhook:
    created: Webhook = Webhook.objects.create(
        **{"url": receiver.url("/journeys"), "auth_token": "t0ken-t0ken", "organization_id": "o_1", **values}
    )
    created.refresh_from_db()
    return created


def ask(hook: Webhook, context: TaskContext, courier: Courier, **values: Any) -> dict[str, Any]:
    return refresh(JourneysChanged(webhook_id=hook.id, **values), context, courier=courier)


@pytest.mark.parametrize("answer", [JOURNEYS, {"journeys": JOURNEYS, "more": 1}])
def test_list_is_asked_for_with_the_token_and_stored(courier: Courier, context: TaskContext, answer: Any) -> None:
    with Receiver(reply(200, body=json.dumps(answer).encode())) as receiver:
        hook = webhook(receiver)
        assert ask(hook, context, courier) == {"journeys": 2, "changed": True}
        (request,) = receiver.requests
    assert (request.request_line, request.body) == ("POST /journeys HTTP/1.1", b"{}")
    assert request.headers["authorization"] == "Bearer t0ken-t0ken"
    assert stored(hook.id) == JOURNEYS
    assert Event.objects.get(type=EVENT_TYPE).organization_id == "o_1"
    assert "t0ken" not in json.dumps([event.data for event in Event.objects.all()])


def test_newest_list_counts_and_the_same_list_is_stored_once(courier: Courier, context: TaskContext) -> None:
    answers = [JOURNEYS, JOURNEYS, [], JOURNEYS[:1]]
    with Receiver(*[reply(200, body=json.dumps(answer).encode()) for answer in answers]) as receiver:
        hook = webhook(receiver)
        changed = [ask(hook, context, courier)["changed"] for _ in answers]
    assert changed == [True, False, True, True]
    assert stored(hook.id) == JOURNEYS[:1]
    assert stored("wh_another") is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b'{"journeys": null}',
        b'{"other": []}',
        b'"journeys"',
        b"7",
        b"[NaN]",
        b"[1e999]",
        b'["\\u0000"]',
        b'["\\ud800"]',
        b"\xff[]",
        b"[" * 100_000,
        b"[" + b"1" * 5000 + b"]",
    ],
    ids=["empty", "html", "null", "none", "text", "number", "NaN", "infinite", "NUL", "half", "latin", "deep", "big"],
)  # fmt: skip
def test_answer_that_is_no_list_fails_and_leaves_the_stored_one(
    courier: Courier, context: TaskContext, body: bytes
) -> None:
    with Receiver(reply(200, body=json.dumps(JOURNEYS).encode()), reply(200, body=body)) as receiver:
        hook = webhook(receiver)
        ask(hook, context, courier)
        with pytest.raises(DeliveryFailed, match="the stored list stays as it was") as failure:
            ask(hook, context, courier)
    assert failure.value.code == "bad_answer"
    assert stored(hook.id) == JOURNEYS


def test_cut_answer_is_not_taken_for_the_list(courier: Courier, context: TaskContext) -> None:
    whole = json.dumps(["x" * 1000] * 1100).encode()
    with Receiver(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[]"), reply(200, body=whole)) as receiver:
        hook = webhook(receiver)
        for _ in range(2):
            with pytest.raises(DeliveryFailed, match="was cut"):
                ask(hook, context, courier)
    assert stored(hook.id) is None


def test_long_list_within_the_limit_is_stored(courier: Courier, context: TaskContext) -> None:
    journeys = ["x" * 1000] * 1000
    with Receiver(reply(200, body=json.dumps(journeys).encode())) as receiver:
        assert ask(webhook(receiver), context, courier) == {"journeys": 1000, "changed": True}


def test_failure_and_refused_address_are_those_of_any_webhook(courier: Courier, context: TaskContext) -> None:
    with Receiver(reply(500)) as receiver:
        with pytest.raises(DeliveryFailed, match="answered 500"):
            ask(webhook(receiver), context, courier)
        with pytest.raises(GiveUp) as refusal:
            ask(webhook(receiver, url="http://10.0.0.1/"), context, courier)
        assert refusal.value.code == "address_refused"
        with pytest.raises(GiveUp, match="must begin with http"):
            ask(webhook(receiver, url="gopher://10.0.0.1/"), context, courier)


@pytest.mark.parametrize("token", [None, "", "new\nline"])
def test_without_a_usable_token_nothing_is_sent(courier: Courier, context: TaskContext, token: str | None) -> None:
    with Receiver() as receiver:
        with pytest.raises(DeliveryFailed) as failure:
            ask(webhook(receiver, auth_token=token), context, courier)
        assert not receiver.conversations
    assert failure.value.code == "webhook_misconfigured"


def test_webhook_of_another_organization_is_not_used(courier: Courier, context: TaskContext) -> None:
    with Receiver() as receiver:
        with pytest.raises(GiveUp, match="another organization"):
            ask(webhook(receiver), context, courier, organization_id="o_2")
        assert not receiver.conversations
