"""What each answer means for the task."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from requests.structures import CaseInsensitiveDict

from taskqueue.errors import GiveUp, RetryLater
from taskqueue.outbound.exchange import Answer
from taskqueue.webhook.excerpt import excerpt
from taskqueue.webhook.retry_after import wait_seconds
from taskqueue.webhook.verdict import DeliveryFailed, verdict

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
URL = "https://me:hush@example.com/hook?token=hush"


def answer_of(status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> Answer:
    return Answer(status=status, headers=CaseInsensitiveDict(headers or {}), body=body, body_cut=False, duration_ms=5)


def judged(answer: Answer, *, chance: float = 0.0, url: str = URL) -> Exception | None:
    secrets = ("hush",)
    return verdict(answer, url=url, response=excerpt(answer, secrets), secrets=secrets, now=NOW, chance=lambda: chance)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 226, 299])
def test_any_2xx_is_success(status: int) -> None:
    assert judged(answer_of(status)) is None


@pytest.mark.parametrize("status", [101, 300, 304, 400, 401, 404, 408, 413, 422, 429, 500, 502, 503, 504, 999])
def test_all_else_fails_with_its_status(status: int) -> None:
    failure = judged(answer_of(status, body=b"because of hush"))
    assert isinstance(failure, DeliveryFailed)
    assert failure.code == f"http_{status}"
    assert str(failure) == (
        f"https://***@example.com/hook?token=*** answered {status}; the answer begins: because of ***"
    )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("https://www.example.com/hook", "https://www.example.com/hook"),
        ("/login?next=1", "https://***@example.com/login?next=1"),
        ("//other.example/", "https://other.example/"),
        ("https://other.example/?token=hush", "https://other.example/?token=***"),
        ("https://other.example/hush", "https://other.example/***"),
        ("https://[", "(an unreadable address)"),
    ],
)
def test_redirect_names_target_and_remedy(status: int, location: str, target: str) -> None:
    failure = judged(answer_of(status, {"Location": location}))
    assert isinstance(failure, DeliveryFailed)
    assert failure.code == "redirected"
    assert f"answered {status}, a redirect to {target}. " in str(failure)
    assert "store the final address" in str(failure)


def test_long_redirect_target_is_cut() -> None:
    failure = judged(answer_of(302, {"Location": "/" + "a" * 5000}))
    assert len(str(failure)) < 600


def test_410_gives_up() -> None:
    failure = judged(answer_of(410))
    assert isinstance(failure, GiveUp)
    assert failure.code == "gone"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1", 1.0),
        (" 120 ", 120.0),
        ("3600", 3600.0),
        ("3601", 3600.0),
        ("99999999999999999999", 3600.0),
        ("Mon, 01 Mar 2027 12:10:00 GMT", 600.0),
        ("Mon, 01 Mar 2027 12:10:00", 600.0),
        ("Mon, 01 Mar 2027 13:10:00 +0100", 600.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600.0),
    ],
)
def test_retry_after_is_honoured_up_to_an_hour(status: int, value: str, seconds: float) -> None:
    verdict_ = judged(answer_of(status, {"Retry-After": value}))
    assert isinstance(verdict_, RetryLater)
    assert (verdict_.after_seconds, verdict_.code) == (seconds, f"http_{status}")


@pytest.mark.parametrize(
    "value",
    [
        "", "0", "-5", "soon", "1.5", "12 minutes", "1e9", "\xb2", "Mon, 01 Mar 2027 11:00:00 GMT", "Mon, 99 Foo",
        "nan", "9" * 400,
    ],
)  # fmt: skip
def test_retry_after_that_says_nothing_leaves_the_usual_backoff(value: str) -> None:
    assert isinstance(judged(answer_of(429, {"Retry-After": value})), DeliveryFailed)


def test_retry_after_counts_for_no_other_status() -> None:
    assert isinstance(judged(answer_of(500, {"Retry-After": "7"})), DeliveryFailed)


def test_many_who_wait_the_same_time_spread_but_never_come_early() -> None:
    waits = [
        verdict_.after_seconds
        for chance in (0.0, 0.5, 0.999)
        if isinstance(verdict_ := judged(answer_of(429, {"Retry-After": "100"}), chance=chance), RetryLater)
    ]
    assert waits == pytest.approx([100.0, 105.0, 109.99])
    longest = judged(answer_of(429, {"Retry-After": "3600"}), chance=0.9)
    assert isinstance(longest, RetryLater) and longest.after_seconds == 3600.0


def test_date_is_relative_to_now() -> None:
    assert wait_seconds("Mon, 01 Mar 2027 12:00:30 GMT", now=NOW) == 30.0


# The beginning of the answer


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        (b"x" * 1024, "x" * 1024),
        (b"x" * 1025, "x" * 1024),
        (("x" * 1023 + "é").encode(), "x" * 1023),
        (b"a\x00b\xff", "a\ufffdb\ufffd"),
        (b"x" * 1020 + b"hush" * 3, "x" * 1020 + "***" + "*"),
    ],
)
def test_first_kilobyte_is_kept_clean_and_without_secrets(body: bytes, text: str) -> None:
    assert excerpt(answer_of(200, body=body), ("hush",)) == text


def test_packed_body_is_described() -> None:
    packed = answer_of(200, {"Content-Encoding": "gzip"}, body=b"\x1f\x8b" + b"\x00" * 98)
    assert excerpt(packed, ()) == "(100 bytes in the encoding 'gzip', not unpacked)"
