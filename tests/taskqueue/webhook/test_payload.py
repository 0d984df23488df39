"""What may be asked for, and that each fault names its field and quotes no value."""

from __future__ import annotations

import math
from typing import Any

import pytest

from taskqueue.errors import InvalidPayload
from taskqueue.handlers import Handler, registry
from taskqueue.webhook.payload import OutboundPayload, encode_body

URL = "https://example.com/hook"


@pytest.fixture
def handler() -> Handler:
    found = registry.get("webhook.outbound")
    assert found is not None
    return found


def test_least_payload_is_a_post_without_body(handler: Handler) -> None:
    assert handler.parse({"url": URL}) == OutboundPayload(
        url=URL, method="POST", headers={}, body=None, organization_id=None, webhook_id=None
    )


def test_full_payload_is_taken(handler: Handler) -> None:
    payload = {
        "url": URL,
        "method": "patch",
        "headers": {"Authorization": "Bearer x", "Content-Type": "text/plain", "X-Name": "Zo\xeb\tB"},
        "body": {"a": [1, None]},
        "organization_id": "o_1",
        "webhook_id": "wh_1",
    }
    assert handler.parse(payload).model_dump() == {**payload, "method": "PATCH"}


@pytest.mark.parametrize("field", ["headers", "body", "organization_id", "webhook_id"])
def test_null_is_the_same_as_absent(handler: Handler, field: str) -> None:
    assert handler.parse({"url": URL, field: None}) == handler.parse({"url": URL})


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ({"url": None}, "url"),
        ({"url": 7}, "url"),
        ({"url": "ftp://example.com"}, "url: must begin with http"),
        ({"url": "https://user:s3cret@exa mple.com/"}, "url"),
        ({"url": "https://example.com/" + "s3cret" * 400}, "url: has 2420 characters"),
        ({"method": "HEAD"}, "method"),
        ({"method": "POST / HTTP/1.1\r\nX: y"}, "method"),
        ({"method": 1}, "method"),
        ({"headers": "s3cret"}, "headers"),
        ({"headers": ["s3cret"]}, "headers"),
        ({"headers": {"X-One": 1}}, "headers.X-One"),
        ({"headers": {"X-One": None}}, "headers.X-One"),
        ({"headers": {"X-One": "s3cret\r\nX-Two: y"}}, "headers.X-One: has a line break"),
        ({"headers": {"X-One": "s3cret\n"}}, "headers.X-One"),
        ({"headers": {"X-One": "s3cret\r"}}, "headers.X-One"),
        ({"headers": {"X-One": "s3cret\x00"}}, "headers.X-One"),
        ({"headers": {"X-One": "s3cret\x7f"}}, "headers.X-One"),
        ({"headers": {"X-One": " s3cret"}}, "headers.X-One"),
        ({"headers": {"X-One": "s3cret \u20ac"}}, "headers.X-One: has a character that HTTP headers cannot carry"),
        ({"headers": {"X-One": "s3cret \U0001f600"}}, "headers.X-One"),
        ({"headers": {"X-One": "\ud800 s3cret"}}, "headers.X-One"),
        ({"headers": {"X-One": "s3cret" * 2000}}, "headers.X-One"),
        ({"headers": {"": "s3cret"}}, "headers"),
        ({"headers": {"X One": "s3cret"}}, "headers.X One"),
        ({"headers": {"X-One:": "s3cret"}}, "headers.X-One:"),
        ({"headers": {"X-\xe9": "s3cret"}}, "headers.X-\xe9"),
        ({"headers": {"X\r\nY": "s3cret"}}, "headers"),
        ({"headers": {"x" * 201: "s3cret"}}, "headers"),
        ({"headers": {"X-A": "s3cret", "x-a": "2"}}, "headers: X-A and x-a are the same header"),
        ({"headers": {f"X-{n}": "s3cret" for n in range(101)}}, "headers: 101 headers"),
        ({"body": math.nan}, "body"),
        ({"body": [math.inf]}, "body"),
        ({"body": {"s3cret": object()}}, "body"),
        ({"body": b"s3cret"}, "body"),
        ({"body": "s3cret \ud800"}, "body"),
        ({"body": ["s3cret \udfff"]}, "body"),
        ({"organization_id": 5}, "organization_id"),
        ({"webhook_id": ["s3cret"]}, "webhook_id"),
        ({"webhookid": "s3cret"}, "webhookid"),
    ],
)  # fmt: skip
def test_fault_names_its_field_and_quotes_nothing(handler: Handler, fault: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidPayload) as refusal:
        handler.parse({"url": URL, **fault})
    assert any(problem.startswith(named) for problem in refusal.value.problems), refusal.value.problems
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize(
    "name",
    [
        "Host", "HOST", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "TE", "Trailer",
        "Expect", "Proxy-Authorization", "Proxy-Connection", "Webhook-Id", "webhook-signature", "Webhook-Token",
        "Webhook-Anything", "User-Agent", "Accept-Encoding", "X-Correlation-Id", "HTTP2-Settings",
    ],
)  # fmt: skip
def test_header_that_is_not_the_callers_is_refused(handler: Handler, name: str) -> None:
    with pytest.raises(InvalidPayload, match=rf"headers\.{name}.*set by the sender"):
        handler.parse({"url": URL, "headers": {name: "x"}})


def test_all_faults_are_told_at_once(handler: Handler) -> None:
    with pytest.raises(InvalidPayload) as refusal:
        handler.parse({"method": "BREW", "headers": {"Host": "x"}, "extra": 1})
    assert {problem.split(":")[0].split(".")[0] for problem in refusal.value.problems} == {
        "url",
        "method",
        "headers",
        "extra",
    }


@pytest.mark.parametrize("payload", [None, [], "https://example.com", 1])
def test_payload_that_is_no_object_is_refused(handler: Handler, payload: Any) -> None:
    with pytest.raises(InvalidPayload):
        handler.parse(payload)


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (None, None),
        ("", b""),
        ("é as it is", "é as it is".encode()),
        ({}, b"{}"),
        ([], b"[]"),
        (False, b"false"),
        (0, b"0"),
        ({"b": "é\x1b", "a": [1.0, None, {}]}, b'{"b":"\xc3\xa9\\u001b","a":[1.0,null,{}]}'),
        (10**20, b"100000000000000000000"),
    ],
)  # fmt: skip
def test_body_has_one_serialisation(body: Any, sent: bytes | None) -> None:
    assert encode_body(body) == sent
