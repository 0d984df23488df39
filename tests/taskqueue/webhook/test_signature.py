"""Who sends and that it is not forged."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from taskqueue.webhook.signature import SecretUnusable, identity, signature, token

OLD = "whsec_b2xkLW9sZC1vbGQtb2xkLW9sZC1vbGQ="
NEW = "whsec_bmV3LW5ldy1uZXctbmV3LW5ldy1uZXc="
BODY = '{"é": "\\u001b"}'.encode()


def headers_for(*secrets: str, task_id: str = "task_1", body: bytes | None = BODY) -> dict[str, str]:
    now = datetime.now(UTC)
    return identity(task_id=task_id, correlation_id="c", now=now) | signature(
        task_id=task_id, now=now, body=body, secrets=secrets
    )


def test_signature_verifies_over_the_bytes() -> None:
    headers = headers_for(NEW)
    assert Webhook(NEW).verify(BODY, headers) == {"é": "\x1b"}
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(BODY + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(BODY, {**headers, "Webhook-Id": "task_2"})


def test_two_secrets_make_two_signatures() -> None:
    headers = headers_for(NEW, OLD)
    assert len(headers["Webhook-Signature"].split(" ")) == 2
    for secret in (NEW, OLD):
        Webhook(secret).verify(BODY, headers)


def test_no_body_is_signed_as_an_empty_one() -> None:
    Webhook(NEW).verify(b"", headers_for(NEW, body=None), json_parse=False)


def test_without_secret_there_is_no_signature() -> None:
    assert "Webhook-Signature" not in headers_for()


@pytest.mark.parametrize("task_id", ["order 7\r\nX: y", "tâche", "a" * 300, "task\u20ac"])
def test_ids_that_no_header_carries_are_encoded_and_verify(task_id: str) -> None:
    headers = headers_for(NEW, task_id=task_id)
    assert headers["Webhook-Id"].isascii() and headers["Webhook-Id"].isprintable() and " " not in headers["Webhook-Id"]
    Webhook(NEW).verify(BODY, headers)


@pytest.mark.parametrize("secret", ["whsec_", "whsec_a", "whsec_\xe9", "whsec_!!!!"])
def test_secret_that_is_none_is_told_without_quoting_it(secret: str) -> None:
    with pytest.raises(SecretUnusable, match="signing secret is not of the form") as refusal:
        headers_for(NEW, secret)
    assert secret not in str(refusal.value).replace("whsec_ and", "")


@pytest.mark.parametrize("text", ["a\r\nb", "a\x00", "\u20ac"])
def test_token_that_no_header_carries_is_told_without_quoting_it(text: str) -> None:
    with pytest.raises(SecretUnusable, match="token cannot be sent") as refusal:
        token(text)
    assert text not in str(refusal.value)


def test_token_is_optional() -> None:
    assert (token(None), token(""), token("t0ken")) == ({}, {}, {"Webhook-Token": "t0ken"})
