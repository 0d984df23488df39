"""A URL is read once, the same way for the filter and for the request."""

from __future__ import annotations

import pytest

from taskqueue.outbound.target import prepare, target_of


@pytest.mark.parametrize(
    ("url", "host", "destination"),
    [
        ("http://example.com", "example.com", "example.com:80"),
        ("HTTPS://EXAMPLE.com/Path?q", "example.com", "example.com:443"),
        ("https://example.com:8443/", "example.com", "example.com:8443"),
        ("https://example.com./", "example.com.", "example.com:443"),
        ("http://user:secret@example.com/", "example.com", "example.com:80"),
        ("http://bücher.example/é", "xn--bcher-kva.example", "xn--bcher-kva.example:80"),
        ("http://[::1]:8080/", "::1", "[::1]:8080"),
        ("http://[0:0::1]/", "::1", "[::1]:80"),
        ("http://public.example@127.0.0.1/", "127.0.0.1", "127.0.0.1:80"),
        ("http://public.example:80@127.0.0.1:81/", "127.0.0.1", "127.0.0.1:81"),
        ("http://127.0.0.1#@public.example/", "127.0.0.1", "127.0.0.1:80"),
        ("http://127.0.0.1?@public.example/", "127.0.0.1", "127.0.0.1:80"),
        ("http://%6cocalhost/", "localhost", "localhost:80"),
    ],
)
def test_host_and_port_are_those_of_the_request(url: str, host: str, destination: str) -> None:
    target = target_of(url)
    assert (target.host, target.destination) == (host, destination)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "http://",
        "http:///path",
        "http:example.com",
        "https://.example.com/",
        "https://./",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:port/",
        "http://exa mple.com/",
        "http://example.com/a b",
        " http://example.com/",
        "http://example.com/\n",
        "http://example.com\\@127.0.0.1/",
        "http://127.0.0.1\\.example.com/",
        "http://example.com/\x00",
        "http://example.com/\x7f",
        "http://[fe80::1%25lo]/",
        "http://[::1/",
        "http://::1/",
        "http://[127.0.0.1]/",
        "http://\uff11\uff12\uff17.0.0.1/",
        "http://\u24dbocalhost/",
        "http://exa%0ample.com/",
        "http://example.com/" + "a" * 2048,
        "http://" + "a" * 254 + "/",
        "http://user:päss@example.com/\ud800",
    ],
)
def test_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^(has|must|is)") as refusal:
        target_of(url)
    assert "example.com" not in str(refusal.value)


def test_name_and_password_of_the_url_are_sent_as_authorization() -> None:
    prepared = prepare("POST", "http://user:p%40ss@example.com/", headers={}, body=b"{}")
    assert prepared.headers["Authorization"] == "Basic dXNlcjpwQHNz"


def test_given_authorization_wins_over_the_url() -> None:
    headers = {"authorization": "Bearer mine"}
    prepared = prepare("POST", "http://user:pass@example.com/", headers=headers, body=b"{}")
    assert [value for name, value in prepared.headers.items() if name.lower() == "authorization"] == ["Bearer mine"]
