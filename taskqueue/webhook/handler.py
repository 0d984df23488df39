"""``webhook.outbound``: send what the payload says to where it says."""

from typing import Any

from taskqueue.handlers import TaskContext, handler
from taskqueue.webhook.delivery import Courier, Message
from taskqueue.webhook.payload import OutboundPayload, encode_body
from taskqueue.webhook.records import webhook_to_use

# The exchange takes ten seconds at most; the rest is for a database that is slow.
TIMEOUT_SECONDS = 30.0


@handler("webhook.outbound", payload=OutboundPayload, timeout=TIMEOUT_SECONDS)
def outbound(payload: OutboundPayload, context: TaskContext) -> dict[str, Any]:
    return send(payload, context, courier=Courier.from_settings())


def send(payload: OutboundPayload, context: TaskContext, *, courier: Courier) -> dict[str, Any]:
    """Deliver once. The webhook's row, if there is one, gives secrets and says whether anything may be sent."""
    webhook = None
    if payload.webhook_id is not None:
        webhook = webhook_to_use(payload.webhook_id, chance=courier.chance)
    organization_id = payload.organization_id
    if organization_id is None and webhook is not None:
        organization_id = webhook.organization_id
    message = Message(
        method=payload.method,
        url=payload.url,
        headers=payload.headers,
        body=encode_body(payload.body),
        organization_id=organization_id,
        webhook=webhook,
    )
    return courier.deliver(message, context).result
