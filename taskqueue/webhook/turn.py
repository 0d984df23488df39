"""``turn.journeys_changed``: the journeys of a messaging service changed, so the stored list of them is refreshed.

The list is asked for with an authenticated POST of ``{}`` to the webhook's address, its token as bearer. The answer
is a list of journeys, or an object with such a list as ``journeys``. What is stored is an event ``turn.journeys``:
the newest one of a webhook is its list, and there is a new one only when the list has changed.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from django.db.models import QuerySet
from pydantic import BaseModel, ConfigDict

from taskqueue.errors import GiveUp
from taskqueue.handlers import TaskContext, handler
from taskqueue.models import Event, Webhook
from taskqueue.webhook.delivery import Courier, Message
from taskqueue.webhook.handler import TIMEOUT_SECONDS
from taskqueue.webhook.headers import value_problem
from taskqueue.webhook.records import webhook_to_use
from taskqueue.webhook.verdict import DeliveryFailed

EVENT_TYPE = "turn.journeys"
# Unlike a webhook's answer this one is the point of asking, and longer than a few lines.
ANSWER_LIMIT_BYTES = 1024 * 1024

_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class JourneysChanged(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    webhook_id: str
    organization_id: str | None = None


@handler("turn.journeys_changed", payload=JourneysChanged, timeout=TIMEOUT_SECONDS)
def journeys_changed(payload: JourneysChanged, context: TaskContext) -> dict[str, Any]:
    return refresh(payload, context, courier=Courier.from_settings(body_limit_bytes=ANSWER_LIMIT_BYTES))


def refresh(payload: JourneysChanged, context: TaskContext, *, courier: Courier) -> dict[str, Any]:
    """Fetch the list and store it if it is another one. An answer that is no list leaves the stored one as it is."""
    webhook = webhook_to_use(payload.webhook_id, chance=courier.chance)
    if payload.organization_id is not None and webhook.organization_id not in {None, payload.organization_id}:
        raise GiveUp("webhook_of_another_organization", f"the webhook {webhook.id} belongs to another organization")
    organization_id = payload.organization_id or webhook.organization_id
    message = Message(
        method="POST",
        url=webhook.url,
        headers={"Accept": "application/json", **_bearer(webhook)},
        body=b"{}",
        organization_id=organization_id,
        webhook=webhook,
    )
    answer = courier.deliver(message, context).answer
    journeys = _list_in(answer.body, cut=answer.body_cut)
    changed = stored(webhook.id) != journeys
    if changed:
        Event.objects.create(
            type=EVENT_TYPE,
            organization_id=organization_id,
            data={"webhook_id": webhook.id, "task_id": context.id, "journeys": list(journeys)},
        )
    return {"journeys": len(journeys), "changed": changed}


def stored(webhook_id: str) -> Sequence[Any] | None:
    """The journeys as they were last fetched for the webhook; None if they never were."""
    newest = _of(webhook_id).order_by("-created_at", "-id").first()
    if newest is None:
        return None
    journeys: Sequence[Any] = newest.data["journeys"]
    return journeys


def _of(webhook_id: str) -> QuerySet[Event]:
    return Event.objects.filter(type=EVENT_TYPE, data__webhook_id=webhook_id)


def _bearer(webhook: Webhook) -> dict[str, str]:
    if not webhook.auth_token:
        raise DeliveryFailed("webhook_misconfigured", f"the webhook {webhook.id} has no token to authenticate with")
    problem = value_problem(webhook.auth_token)
    if problem is not None:
        raise DeliveryFailed("webhook_misconfigured", f"the token of the webhook {webhook.id} {problem}")
    return {"Authorization": f"Bearer {webhook.auth_token}"}


def _list_in(body: bytes, *, cut: bool) -> list[Any]:
    if cut:
        _refuse(f"was cut: it is incomplete or longer than {ANSWER_LIMIT_BYTES} bytes")
    try:
        found = json.loads(body)
        journeys = found.get("journeys") if isinstance(found, dict) else found
        text = json.dumps(journeys, ensure_ascii=False, allow_nan=False)
        text.encode()  # fails for halves of surrogate pairs, which PostgreSQL cannot store
    except (ValueError, RecursionError):
        _refuse("is not JSON that can be stored")
    if not isinstance(journeys, list):
        _refuse("is neither a list nor an object with a list as 'journeys'")
    if _ESCAPED_NUL.search(text):
        _refuse("contains the character NUL, which PostgreSQL cannot store")
    return journeys


def _refuse(what: str) -> NoReturn:
    raise DeliveryFailed("bad_answer", f"the answer {what}; the stored list stays as it was") from None
