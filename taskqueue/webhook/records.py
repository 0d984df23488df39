"""The rows around a delivery: the webhook it belongs to, and the event that tells what came of it.

Each function is one short statement of its own; nothing is locked while a request is under way.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db.models import Case, DurationField, ExpressionWrapper, F, FloatField, Q, Value, When
from django.db.models.functions import Least, Now, Power

from taskqueue.errors import GiveUp, Snooze
from taskqueue.models import Event, Webhook
from taskqueue.text import storable

TIMEOUTS_BEFORE_PAUSE = 3
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=1)


def webhook_to_use(webhook_id: str, *, chance: Callable[[], float]) -> Webhook:
    """The webhook, if it may be used now.

    Raises ``GiveUp`` when it is missing or disabled, and ``Snooze`` while it is paused.
    """
    # Whether a pause is over is the database's to say: it is what set it.
    webhook = Webhook.objects.annotate(pause_left=F("paused_until") - Now()).filter(pk=webhook_id).first()
    if webhook is None:
        raise GiveUp("webhook_missing", f"there is no webhook {storable(webhook_id, 200)} (any more), nothing was sent")
    if webhook.disabled_at is not None:
        raise GiveUp(
            "webhook_disabled",
            f"the webhook {webhook.id} was disabled on {webhook.disabled_at:%Y-%m-%d %H:%M} UTC, nothing was sent: "
            f"{webhook.disabled_reason}",
        )
    pause_left: timedelta | None = webhook.pause_left
    if pause_left is not None and pause_left > timedelta(0):
        raise Snooze(pause_left * (1 + 0.1 * chance()), f"the webhook {webhook.id} is paused, nothing was sent")
    return webhook


def disable(webhook_id: str, reason: str) -> bool:
    """Disable the webhook, unless it is disabled already; then the first reason stays. Tells whether it did."""
    enabled = Webhook.objects.filter(pk=webhook_id, disabled_at__isnull=True)
    return bool(enabled.update(disabled_at=Now(), disabled_reason=storable(reason), updated_at=Now()))


def enable(webhook_id: str) -> bool:
    """Let the webhook be used again, at once: also out of a pause. Tells whether there was anything to undo."""
    held = Q(disabled_at__isnull=False) | Q(paused_until__isnull=False) | Q(timeout_streak__gt=0)
    freed = {"disabled_at": None, "disabled_reason": None, "paused_until": None, "timeout_streak": 0}
    return bool(Webhook.objects.filter(held, pk=webhook_id).update(**freed, updated_at=Now()))


def note_timeout(webhook_id: str) -> None:
    """Count one more timeout in a row; from the third on the webhook is paused, each time twice as long.

    Requests that were under way when it was paused do not count, or the pause would grow with their number.
    """
    streak = F("timeout_streak") + 1
    # The exponent is bounded, since an interval overflows long before a number does.
    growth = Power(Value(2.0), Least(streak - TIMEOUTS_BEFORE_PAUSE, 20), output_field=FloatField())
    pause = Least(
        ExpressionWrapper(Value(FIRST_PAUSE) * growth, output_field=DurationField()),
        Value(LONGEST_PAUSE),
        output_field=DurationField(),
    )
    Webhook.objects.filter(Q(paused_until__isnull=True) | Q(paused_until__lte=Now()), pk=webhook_id).update(
        timeout_streak=streak,
        paused_until=Case(
            When(timeout_streak__gte=TIMEOUTS_BEFORE_PAUSE - 1, then=Now() + pause), default=F("paused_until")
        ),
        updated_at=Now(),
    )


def note_answer(webhook_id: str) -> None:
    """It answers: the timeouts before are no longer in a row. A pause stays, since a person may have set it."""
    Webhook.objects.filter(pk=webhook_id, timeout_streak__gt=0).update(timeout_streak=0, updated_at=Now())


def note_sent(*, organization_id: str | None, data: dict[str, Any]) -> None:
    Event.objects.create(type="webhook.sent", organization_id=organization_id, data=data)
