"""The rows around a delivery: when a webhook may be used, when it is paused, and when it is disabled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models.functions import Now

from taskqueue.errors import GiveUp, Snooze
from taskqueue.models import Webhook
from taskqueue.webhook import records

pytestmark = pytest.mark.django_db


def webhook(**values: object) -> Webhook:
    created: Webhook = Webhook.objects.create(**{"name": "hook", "url": "https://example.com/", **values})
    created.refresh_from_db()
    return created


def pause_of(hook: Webhook) -> tuple[int, float | None]:
    """The streak, and for how many seconds more the webhook is paused by the database's clock."""
    row = Webhook.objects.annotate(now=Now()).get(pk=hook.pk)
    return row.timeout_streak, None if row.paused_until is None else (row.paused_until - row.now).total_seconds()


def test_enabled_webhook_is_found() -> None:
    hook = webhook()
    assert records.webhook_to_use(hook.id, chance=lambda: 0).id == hook.id


@pytest.mark.parametrize("webhook_id", ["wh_missing", "", "wh'; DROP TABLE webhooks; --"])
def test_missing_webhook_gives_up(webhook_id: str) -> None:
    with pytest.raises(GiveUp, match="nothing was sent") as verdict:
        records.webhook_to_use(webhook_id, chance=lambda: 0)
    assert verdict.value.code == "webhook_missing"


def test_disabled_webhook_gives_up_and_says_why() -> None:
    hook = webhook(disabled_at=datetime(2027, 3, 1, 12, 30, tzinfo=UTC), disabled_reason="nobody listens")
    with pytest.raises(GiveUp, match="disabled on 2027-03-01 12:30 UTC, nothing was sent: nobody listens") as verdict:
        records.webhook_to_use(hook.id, chance=lambda: 0)
    assert verdict.value.code == "webhook_disabled"


def test_paused_webhook_waits_for_the_end_of_the_pause_and_a_little_more() -> None:
    hook = webhook(paused_until=datetime.now(UTC) + timedelta(seconds=100))
    for chance, least, most in ((0.0, 95.0, 100.0), (1.0, 105.0, 110.0)):
        with pytest.raises(Snooze, match="paused") as verdict:
            records.webhook_to_use(hook.id, chance=lambda chance=chance: chance)  # type: ignore[misc]
        assert isinstance(verdict.value.until, timedelta)
        assert least < verdict.value.until.total_seconds() <= most


def test_pause_that_is_over_does_not_count() -> None:
    hook = webhook(paused_until=datetime.now(UTC) - timedelta(seconds=1))
    assert records.webhook_to_use(hook.id, chance=lambda: 0).id == hook.id


def test_disabling_keeps_the_first_reason() -> None:
    hook = webhook()
    assert records.disable(hook.id, "first") is True
    assert records.disable(hook.id, "second") is False
    hook.refresh_from_db()
    assert (hook.disabled_reason, hook.disabled_at is not None) == ("first", True)


def test_third_timeout_in_a_row_pauses() -> None:
    hook = webhook()
    records.note_timeout(hook.id)
    records.note_timeout(hook.id)
    assert pause_of(hook) == (2, None)
    records.note_timeout(hook.id)
    streak, seconds = pause_of(hook)
    assert streak == 3
    assert seconds == pytest.approx(30, abs=5)


def test_pause_grows_up_to_an_hour() -> None:
    hook = webhook()
    pauses = []
    for _ in range(60):
        records.note_timeout(hook.id)
        pauses.append(pause_of(hook)[1])
        Webhook.objects.filter(pk=hook.pk, paused_until__isnull=False).update(paused_until=Now() - timedelta(seconds=1))
    known = [seconds for seconds in pauses if seconds is not None]
    assert known[:9] == pytest.approx([30, 60, 120, 240, 480, 960, 1920, 3600, 3600], abs=5)
    assert known[-1] == pytest.approx(3600, abs=5)
    assert pause_of(hook)[0] == 60


def test_timeouts_of_requests_that_began_before_the_pause_do_not_lengthen_it() -> None:
    hook = webhook()
    for _ in range(10):
        records.note_timeout(hook.id)
    streak, seconds = pause_of(hook)
    assert streak == 3
    assert seconds == pytest.approx(30, abs=5)


def test_answer_ends_the_streak_and_leaves_a_pause_alone() -> None:
    paused_until = datetime.now(UTC) + timedelta(hours=1)
    hook = webhook(timeout_streak=5, paused_until=paused_until)
    records.note_answer(hook.id)
    hook.refresh_from_db()
    assert (hook.timeout_streak, hook.paused_until) == (0, paused_until)


def test_only_the_webhook_itself_is_touched() -> None:
    hook, other = webhook(), webhook(timeout_streak=2)
    for _ in range(3):
        records.note_timeout(hook.id)
    records.note_answer(hook.id)
    records.disable(hook.id, "gone")
    other.refresh_from_db()
    assert (other.timeout_streak, other.paused_until, other.disabled_at) == (2, None, None)
