"""Webhooks in the admin: secrets go in and never come out, and what a worker writes meanwhile stays."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from taskqueue.models import Webhook
from taskqueue.webhook import records
from tests.taskqueue.admin.conftest import Visitor

LIST = "/admin/taskqueue/webhook/"
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
OTHER = "whsec_" + base64.b64encode(b"abcdefgh01234567abcdefgh").decode()
NOW = datetime.now(UTC)


def hook(**values: Any) -> Webhook:
    made = Webhook.objects.create(**{"name": "Orders", "url": "https://example.com/", **values})
    return Webhook.objects.get(pk=made.pk)


def address(webhook: Webhook) -> str:
    return f"{LIST}{webhook.pk.replace('_', '_5F')}/change/"


def save(client: Client, webhook: Webhook | None, **values: str) -> Any:
    form = {"name": "Orders", "direction": "outbound", "type": "", "url": "https://example.com/", "organization_id": ""}
    where = f"{LIST}add/" if webhook is None else address(webhook)
    return client.post(where, {**form, **values})


def test_new_webhook_is_stored_with_its_secrets(administrator: Client) -> None:
    assert save(administrator, None, new_token="tok-en", new_secret=SECRET, organization_id="o_1").status_code == 302
    made = Webhook.objects.get()
    assert (made.auth_token, made.signing_secret, made.organization_id) == ("tok-en", SECRET, "o_1")
    assert made.pk.startswith("wh_")


def test_no_page_shows_a_secret(administrator: Client) -> None:
    webhook = hook(auth_token="tok-en", signing_secret=f"{SECRET} {OTHER}")
    save(administrator, webhook, new_token="bad\ntok-en", new_secret=SECRET + "!")
    for page in (
        administrator.get(LIST),
        administrator.get(address(webhook)),
        administrator.get(address(webhook).replace("change", "history")),
        save(administrator, webhook, new_token="bad\x01tok-en", new_secret="whsec_" + "x" * 30, url="nonsense"),
    ):
        text = page.content.decode()
        assert page.status_code == 200
        assert "tok-en" not in text
        assert "whsec_M" not in text
        assert "x" * 30 not in text


def test_blank_keeps_the_stored_secrets(administrator: Client) -> None:
    webhook = hook(auth_token="tok-en", signing_secret=SECRET)
    save(administrator, webhook, name="Renamed")
    webhook.refresh_from_db()
    assert (webhook.name, webhook.auth_token, webhook.signing_secret) == ("Renamed", "tok-en", SECRET)


def test_new_secret_signs_beside_the_old_one_until_that_is_removed(administrator: Client) -> None:
    webhook = hook(signing_secret=SECRET)
    save(administrator, webhook, new_secret=OTHER, stored_secrets="keep")
    webhook.refresh_from_db()
    assert webhook.signing_secret == f"{OTHER} {SECRET}"
    save(administrator, webhook, stored_secrets="newest")
    webhook.refresh_from_db()
    assert webhook.signing_secret == OTHER
    save(administrator, webhook, stored_secrets="remove", remove_token="on")
    assert Webhook.objects.filter(signing_secret=None, auth_token=None).exists()


@pytest.mark.parametrize(
    "values",
    [
        {"url": "ftp://example.com/"},
        {"url": "javascript:alert(1)"},
        {"url": "example.com"},
        {"url": ""},
        {"url": "https://exa mple.com/"},
        {"new_secret": "hunter2"},
        {"new_secret": "whsec_short"},
        {"new_secret": "whsec_!!!!"},
        {"new_secret": f"{SECRET} {OTHER}"},
        {"new_token": "two\nlines"},
        {"new_token": "tok-en", "remove_token": "on"},
        {"direction": "inbound"},
    ],
    ids=str,
)
def test_what_could_not_be_sent_is_refused(administrator: Client, values: dict[str, str]) -> None:
    webhook = hook(auth_token="kept", signing_secret=SECRET)
    assert save(administrator, webhook, **values).status_code == 200
    stored = Webhook.objects.get()
    assert (stored.url, stored.auth_token, stored.signing_secret) == ("https://example.com/", "kept", SECRET)


def test_saving_does_not_undo_what_a_worker_wrote_meanwhile(
    administrator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = hook()
    administrator.get(address(webhook))
    loaded = Webhook.from_db.__func__  # type: ignore[attr-defined]

    def disabled_after_loading(cls: type[Webhook], *args: Any, **kwargs: Any) -> Webhook:
        row: Webhook = loaded(cls, *args, **kwargs)
        records.disable(webhook.pk, "410 Gone")
        return row

    monkeypatch.setattr(Webhook, "from_db", classmethod(disabled_after_loading))
    save(administrator, webhook, name="Renamed")
    monkeypatch.undo()
    webhook = Webhook.objects.get()
    assert (webhook.name, webhook.disabled_reason) == ("Renamed", "410 Gone")


def test_enabling_clears_the_reason_the_pause_and_the_streak(administrator: Client) -> None:
    webhook = hook(disabled_at=NOW, disabled_reason="410 Gone", paused_until=NOW + timedelta(hours=1), timeout_streak=9)
    answer = administrator.post(LIST, {"action": "enable", "_selected_action": webhook.pk}, follow=True)
    assert "1 webhook enabled." in answer.content.decode()
    webhook.refresh_from_db()
    held = (webhook.disabled_at, webhook.disabled_reason, webhook.paused_until, webhook.timeout_streak)
    assert held == (None, None, None, 0)
    assert records.webhook_to_use(webhook.pk, chance=lambda: 0).pk == webhook.pk
    assert LogEntry.objects.get().change_message == "Enabled."


def test_disabling_says_who_did_it_and_is_told_when_it_was_done_before(administrator: Client) -> None:
    webhook = hook()
    where = address(webhook)
    name = re.search(r'<select name="([^"]+)"', administrator.get(where).content.decode())
    assert name is not None
    form = {name[1]: "disable", "_selected_action": webhook.pk}
    administrator.post(where, form, follow=True)
    webhook.refresh_from_db()
    assert webhook.disabled_reason == "disabled by root in the admin"
    answer = administrator.post(where, form, follow=True)
    assert "0 webhooks disabled. 1 disabled already." in answer.content.decode()


@pytest.mark.parametrize("permission", ["view_webhook", "add_webhook", "delete_webhook"])
def test_change_needs_its_right(visitor: Visitor, permission: str) -> None:
    webhook = hook(auth_token="kept")
    client = visitor(permission)
    assert save(client, webhook, name="Renamed").status_code == 403
    client.post(LIST, {"action": "disable", "_selected_action": webhook.pk})
    webhook.refresh_from_db()
    assert (webhook.name, webhook.disabled_at) == ("Orders", None)


def test_viewer_sees_the_webhook_without_its_secrets(visitor: Visitor) -> None:
    webhook = hook(auth_token="tok-en", signing_secret=SECRET)
    page = visitor("view_webhook").get(address(webhook)).content.decode()
    assert "there is one" in page
    assert "tok-en" not in page
    assert SECRET not in page
