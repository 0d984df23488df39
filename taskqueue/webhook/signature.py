"""The headers that tell a receiver which message this is and that it is ours: Standard Webhooks, and the token."""

import binascii
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from urllib.parse import quote

import standardwebhooks
from standardwebhooks.webhooks import EmptyWebhookSecretError

from taskqueue.webhook.headers import value_problem

USER_AGENT = f"xngin-worker/{version('xngin-worker')}"
_VISIBLE_ASCII = "".join(map(chr, range(0x21, 0x7F)))


class SecretUnusable(Exception):
    """A webhook's token or signing secret is not one. Sending without it would only be refused at the other end."""

    code = "webhook_misconfigured"


def identity(*, task_id: str, correlation_id: str, now: datetime) -> dict[str, str]:
    """Who sends, and what. ``Webhook-Id`` is the same at every attempt: receivers know a repetition by it.

    Ids are any text that whoever inserted the task chose; what a header cannot carry is percent-encoded.
    """
    return {
        "User-Agent": USER_AGENT,
        "Webhook-Id": quote(task_id, safe=_VISIBLE_ASCII),
        "Webhook-Timestamp": str(int(now.timestamp())),
        "X-Correlation-Id": quote(correlation_id, safe=_VISIBLE_ASCII),
    }


def signature(*, task_id: str, now: datetime, body: bytes | None, secrets: Sequence[str]) -> dict[str, str]:
    """One signature for each secret, newest first, over exactly the bytes that are sent."""
    if not secrets:
        return {}
    try:
        signers = [standardwebhooks.Webhook(secret) for secret in secrets]
    except (EmptyWebhookSecretError, binascii.Error, ValueError):
        raise SecretUnusable("the webhook's signing secret is not of the form whsec_ and Base64") from None
    text = (body or b"").decode()
    message_id = quote(task_id, safe=_VISIBLE_ASCII)
    return {"Webhook-Signature": " ".join(signer.sign(message_id, now, text) for signer in signers)}


def token(auth_token: str | None) -> dict[str, str]:
    if not auth_token:
        return {}
    problem = value_problem(auth_token)
    if problem is not None:
        raise SecretUnusable(f"the webhook's token cannot be sent: it {problem}")
    return {"Webhook-Token": auth_token}
