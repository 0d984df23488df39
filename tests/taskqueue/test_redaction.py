"""What is taken for a secret, by its name and by its shape, and what stays readable."""

from __future__ import annotations

import time
from typing import Any

import pytest

from taskqueue.redaction import DEEPEST, is_secret_name, redacted, redacted_text


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "dbPassword",
        "dbpassword",
        "api_key",
        "apikey",
        "APIKey",
        "X-Api-Key",
        "key",
        "Authorization",
        "proxy-authorization",
        "Set-Cookie",
        "sessionid",
        "session_id",
        "clientSecret",
        "signing_secret",
        "DATABASE_DSN",
        "access_token",
        "Webhook-Signature",
        "auth",
        "private_key",
    ],
)
def test_name_of_a_secret_is_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "author",
        "keyboard",
        "monkey",
        "compass",
        "dedupe_key",
        "idempotencyKey",
        "public_key",
        "max_tokens",
        "tokenExpiresAt",
        "token_type",
        "status_code",
        "url",
        "",
    ],
)
def test_name_of_something_else_stays_readable(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def-123", "Authorization: ***"),
        ("Cookie: a=hunter2; b=hunter3\nnext line", "Cookie: ***\nnext line"),
        ("sent bearer hunter2hunter2 to it", "sent bearer *** to it"),
        ("Basic aHVudGVyOmh1bnRlcjI=", "Basic ***"),
        ("{'Authorization': 'Bearer hunter2', 'X': 'y'}", "{'Authorization': '***', 'X': 'y'}"),
        ('{"password": "hunter2", "user": "bob"}', '{"password": "***", "user": "bob"}'),
        (r"{\"api_key\": \"hunter2\", \"user\": \"bob\"}", r"{\"api_key\": \"***\", \"user\": \"bob\"}"),
        ('"secret": "it is cut off at hunter2', '"secret": "***"'),
        (r"password='hun\'ter2' and more", "password='***' and more"),
        ("password=hunter2, retry=5", "password=***, retry=5"),
        ("https://bob:hunter2@example.com/p?token=hunter3&x=1", "https://***@example.com/p?token=***&x=1"),
        ("postgres://bob:hun/ter2@db/app", "postgres://***@db/app"),
        ("redis://:hunter2@cache", "redis://***@cache"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY----- ok",
            "-----BEGIN RSA PRIVATE KEY-----*** ok",
        ),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2 and no end", "-----BEGIN OPENSSH PRIVATE KEY-----***"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln here", "jwt *** here"),
        ("uses whsec_aHVudGVyMmh1bnRlcjI= now", "uses *** now"),
    ],
)
def test_secret_inside_a_text_is_masked(text: str, shown: str) -> None:
    assert redacted_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "a basic training session, the bearer of news",
        "https://example.com:8443/a@b?page=2",
        "token=None",
        "password is required",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "task_0193f2ab00ff: status=500 reason: timeout",
    ],
)
def test_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert redacted_text(text) == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": {"token": "hunter2", "n": 1}}, {"a": {"token": "***", "n": 1}}),
        ({"auth": {"user": "bob", "pass": "x"}}, {"auth": "***"}),
        ({"token": None, "secret": "", "password": False}, {"token": None, "secret": "", "password": False}),
        ({"pin": 1234}, {"pin": "***"}),
        ([{"name": "Authorization", "value": "x"}], [{"name": "Authorization", "value": "***"}]),
        ([["X-Api-Key", "x"], ["Accept", "y"]], [["X-Api-Key", "***"], ["Accept", "y"]]),
        ({"text": '{"password": "hunter2"}'}, {"text": '{"password": "***"}'}),
        ({"https://bob:hunter2@h": 1}, {"https://***@h": 1}),
    ],
)
def test_secrets_in_json_are_masked_by_name_and_shape(value: Any, shown: Any) -> None:
    assert redacted(value) == shown


def test_secret_across_the_cut_is_not_shown_in_half() -> None:
    text = "x" * 90 + " https://bob:hunter2hunter2@example.com/"
    assert "hunter2" not in redacted_text(text, longest=110)
    assert "more characters" in redacted_text(text, longest=110)


def test_nesting_beyond_all_reason_ends() -> None:
    value: Any = "deep"
    for _ in range(DEEPEST * 3):
        value = [value]
    assert "nested too deep" in str(redacted(value))


@pytest.mark.parametrize(
    "piece",
    ["a", '"', "\\", "a:", "http://a:b", "token=", "x ", "-----BEGIN A-----", "eyJ", "a.b-", "'token':'", "basic "],
)
def test_hostile_text_of_a_megabyte_costs_no_more_than_its_length(piece: str) -> None:
    begun = time.process_time()
    redacted_text(piece * (1_000_000 // len(piece)))
    assert time.process_time() - begun < 5
