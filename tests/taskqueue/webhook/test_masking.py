"""Secrets are recognised by the names they have, and found wherever they are quoted."""

from __future__ import annotations

import pytest

from taskqueue.webhook.masking import mask_headers, mask_url, scrub, secrets_in


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://example.com/a?b=c#d", "https://example.com/a?b=c#d"),
        ("https://me:hush@example.com:8443/a", "https://***@example.com:8443/a"),
        ("https://token-alone@example.com/", "https://***@example.com/"),
        ("https://example.com/?token=hush&x=1&Api_Key=hush", "https://example.com/?token=***&x=1&Api_Key=***"),
        ("https://example.com/?sig=hush&code=hush&token=", "https://example.com/?sig=***&code=***&token="),
        ("https://[::1/", "(an unreadable address)"),
    ],
)
def test_url_is_shown_without_its_secrets(url: str, masked: str) -> None:
    assert mask_url(url) == masked


def test_headers_with_secrets_are_masked_by_name() -> None:
    headers = {
        "Authorization": "Bearer hush",
        "cookie": "a=hush",
        "X-Api-Key": "hush",
        "X-Auth-Token": "hush",
        "Webhook-Token": "hush",
        "Webhook-Signature": "v1,hush",
        "Webhook-Id": "task_1",
        "Content-Type": "application/json",
    }
    masked = mask_headers(headers)
    assert "hush" not in str(masked)
    assert (masked["Webhook-Id"], masked["Content-Type"]) == ("task_1", "application/json")


def test_every_secret_of_a_request_is_masked_where_it_is_quoted() -> None:
    secrets = secrets_in(
        "https://me:p%40ssword@example.com/?token=in-query&page=visible",
        {"Authorization": "Bearer in-header", "X-Plain": "visible"},
        ["in-the-row", None, ""],
    )
    text = scrub("visible me:p@ssword p%40ssword in-query in-header Bearer in-header in-the-row", secrets)
    assert text == "visible *** *** *** *** *** ***"


def test_short_values_are_left_in_texts() -> None:
    assert scrub("a cat", secrets_in("https://example.com/?token=a", {"Cookie": "cat"})) == "a cat"
