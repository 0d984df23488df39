"""One request and its answer, against servers that behave badly."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network
from pathlib import Path

import pytest

from taskqueue.outbound.errors import AddressRefused, NameNotResolved, OutboundError, TimedOut
from taskqueue.outbound.exchange import Answer, Exchange
from tests.support.authority import Authority
from tests.support.receiver import (
    Behaviour,
    Conversation,
    Receiver,
    deaf_port,
    dripping,
    dripping_handshake,
    endless,
    gzip_bomb,
    http,
    leaving,
    raw,
    reply,
    silent,
)

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
OK = b"HTTP/1.1 200 OK\r\n"
LIMIT = 64 * 1024


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def no_thread_stays() -> object:
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(5)
    assert not [thread.name for thread in left if thread.is_alive()]


def resolving_to(*addresses: str) -> Callable[[str], Sequence[str]]:
    return lambda host: addresses


ONLY_LOOPBACK = resolving_to("127.0.0.1")


def send(
    url: str,
    *,
    deadline_seconds: float = 5.0,
    ca_bundle: Path | None = None,
    resolver: Callable[[str], Sequence[str]] = ONLY_LOOPBACK,
    body: bytes | None = b'{"a": 1}',
    method: str = "POST",
) -> Answer:
    exchange = Exchange(
        allowed_networks=LOOPBACK, deadline_seconds=deadline_seconds, ca_bundle=ca_bundle, resolver=resolver
    )
    return exchange.request(method, url, headers={"X-Test": "1", "User-Agent": "test/1"}, body=body)


def ask(behaviour: Behaviour, *, deadline_seconds: float = 5.0) -> Answer:
    with Receiver(behaviour) as receiver:
        answer = send(receiver.url(), deadline_seconds=deadline_seconds)
        assert len(receiver.requests) == 1
        return answer


# What is sent


def test_request_is_sent_byte_for_byte() -> None:
    with Receiver() as receiver:
        answer = send(receiver.url("/hook?x=1"), body="é\x1b".encode())
        (request,) = receiver.requests
    assert answer.status == 200
    assert request.request_line == "POST /hook?x=1 HTTP/1.1"
    assert request.body == b"\xc3\xa9\x1b"
    assert request.headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "x-test": "1",
        "user-agent": "test/1",
        "accept-encoding": "identity",
        "connection": "close",
        "content-length": "3",
    }


@pytest.mark.parametrize(("method", "length"), [("POST", "0"), ("PUT", "0"), ("GET", None)])
def test_no_body_is_an_empty_one(method: str, length: str | None) -> None:
    with Receiver() as receiver:
        send(receiver.url(), method=method, body=None)
        (request,) = receiver.requests
    assert (request.body, request.headers.get("content-length")) == (b"", length)


def test_proxies_and_netrc_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password hush\nmachine localhost login me password hush\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        send(receiver.url())
        (request,) = receiver.requests
        assert not proxy.conversations
    assert "authorization" not in request.headers


def test_large_body_to_a_server_that_answers_early_is_an_answer() -> None:
    def early(conversation: Conversation) -> None:
        conversation.connection.recv(1024)
        conversation.send(http(413))
        conversation.wait_for_client_to_leave()

    with Receiver(early) as receiver:
        assert send(receiver.url(), body=b"x" * 200_000).status == 413


# Which address


def test_connection_goes_to_the_judged_address_and_keeps_the_name() -> None:
    with Receiver() as receiver:
        send(receiver.url(host="hooks.example.com"))
        (request,) = receiver.requests
    assert request.headers["host"] == f"hooks.example.com:{receiver.port}"


def test_second_answer_of_the_name_server_is_never_asked_for() -> None:
    asked = []

    def rebinding(host: str) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    with Receiver() as judged, Receiver(address="127.0.0.2", port=judged.port) as other:
        send(judged.url(host="rebinding.example.com"), resolver=rebinding)
        assert (len(judged.requests), len(other.conversations)) == (1, 0)
    assert asked == ["rebinding.example.com"]


def test_refused_address_gets_no_connection() -> None:
    with Receiver() as receiver:
        with pytest.raises(AddressRefused):
            Exchange().request("POST", receiver.url(), headers={}, body=None)
        with pytest.raises(AddressRefused):
            send(receiver.url(host="mixed.example.com"), resolver=resolving_to("127.0.0.1", "10.0.0.1"))
        assert not receiver.conversations


def test_second_address_is_used_when_the_first_refuses() -> None:
    with Receiver() as receiver:
        send(receiver.url(host="two.example.com"), resolver=resolving_to("127.0.0.9", "::1", "127.0.0.1"))
        assert len(receiver.requests) == 1


def test_second_address_is_used_when_the_first_does_not_react() -> None:
    with deaf_port() as port, Receiver(address="127.0.0.2", port=port) as receiver:
        answer = send(
            f"http://two.example.com:{port}/", resolver=resolving_to("127.0.0.1", "127.0.0.2"), deadline_seconds=2
        )
        assert (answer.status, len(receiver.requests)) == (200, 1)


def test_ipv6_receiver_is_reached() -> None:
    with Receiver(address="::1") as receiver:
        send(receiver.url())
        (request,) = receiver.requests
    assert request.headers["host"] == f"[::1]:{receiver.port}"


def test_name_that_does_not_resolve_is_a_failure_of_its_own() -> None:
    def unknown(host: str) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(NameNotResolved) as failure:
        send("http://unknown.example.com/", resolver=unknown)
    assert failure.value.code == "dns_failed"


# How long


@pytest.mark.parametrize(
    "behaviour",
    [
        silent(),
        dripping(b"", b"H"),
        dripping(b"HTTP/1.1 2", b"0"),
        dripping(b"HTTP/1.1 103 Early Hints\r\n", b"X: y\r\n"),
        dripping(b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    ],
    ids=["silent", "status", "status number", "headers of 103", "nothing but 103"],
)
def test_status_line_that_does_not_come_in_time_is_a_timeout(behaviour: Behaviour) -> None:
    started = time.monotonic()
    with pytest.raises(TimedOut) as failure:
        ask(behaviour, deadline_seconds=0.4)
    assert 0.3 < time.monotonic() - started < 2
    assert failure.value.code == "timeout"


@pytest.mark.parametrize("behaviour", [dripping_handshake(), dripping(b"", b"H")], ids=["handshake", "answer"])
def test_dripping_over_tls_is_a_timeout(authority: Authority, behaviour: Behaviour) -> None:
    started = time.monotonic()
    with (
        Receiver(behaviour, tls=authority.server_context("127.0.0.1")) as receiver,
        pytest.raises(TimedOut),
    ):
        send(receiver.url(), deadline_seconds=0.4, ca_bundle=authority.bundle)
    assert time.monotonic() - started < 2


def test_port_that_takes_no_connection_is_a_timeout() -> None:
    started = time.monotonic()
    with deaf_port() as port, pytest.raises(TimedOut, match="no connection in time"):
        send(f"http://127.0.0.1:{port}/", deadline_seconds=0.4)
    assert time.monotonic() - started < 8


def test_server_that_does_not_read_a_large_body_is_a_timeout() -> None:
    def deaf(conversation: Conversation) -> None:
        conversation.wait(30)

    with Receiver(deaf) as receiver, pytest.raises(TimedOut):
        send(receiver.url(), body=b"x" * 50_000_000, deadline_seconds=0.4)


def test_slow_name_server_uses_up_the_same_time() -> None:
    release = threading.Event()

    def slow(host: str) -> Sequence[str]:
        release.wait(10)
        return ["127.0.0.1"]

    started = time.monotonic()
    with pytest.raises(TimedOut):
        send("http://slow.example.com/", resolver=slow, deadline_seconds=0.2)
    assert time.monotonic() - started < 2
    release.set()


# What the answer is


@pytest.mark.parametrize(
    ("behaviour", "body"),
    [
        (dripping(OK, b"X-Slow: yes\r\n"), b""),
        (dripping(OK + b"X-Slow: ", b"y"), b""),
        (dripping(OK + b"\r\nbegin", b"y", interval_seconds=30), b"beginy"),
        (dripping(OK + b"Content-Length: 100\r\n\r\nbegin", b"y", interval_seconds=30), b"beginy"),
        (dripping(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n", b"1", interval_seconds=30), b"begin"),
    ],
    ids=["headers", "one header", "body", "body of known length", "chunks"],
)
def test_success_stays_one_when_the_rest_drips(behaviour: Behaviour, body: bytes) -> None:
    started = time.monotonic()
    answer = ask(behaviour, deadline_seconds=0.4)
    assert time.monotonic() - started < 2
    assert (answer.status, answer.body, answer.body_cut) == (200, body, True)


@pytest.mark.parametrize(
    ("data", "body", "cut"),
    [
        (http(200, [("Content-Type", "text/html")], b"<html>"), b"<html>", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", False),
        (OK + b"Content-Length: 100\r\n\r\nfour", b"four", True),
        (OK + b"\r\nuntil the end", b"until the end", False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n", b"four", False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nfour\r\nzz\r\n", b"four", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-4\r\nfour\r\n", b"four\r\n", True),
        (OK + b"Content-Length: many\r\n\r\nfour", b"four", False),
        (OK, b"", False),
        (OK + b"X-Half: ", b"", False),
        (OK + b"X: " + b"y" * 70_000 + b"\r\n\r\n", b"", True),
        (OK + b"X: y\r\n" * 200 + b"\r\n", b"", True),
        (OK + b"no header at all\r\n\r\nfour", b"four", False),
        (OK + b"Set-Cookie: \xff=\x01; Expires=never\r\nContent-Length: 2\r\n\r\nok", b"ok", False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + http(200, body=b"ok"), b"ok", False),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + http(200, body=b"ok"), b"ok", False),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + http(200, body=b"ok"), b"ok", False),
        (http(200, body=b"x" * LIMIT), b"x" * LIMIT, False),
        (http(200, body=b"x" * (LIMIT + 1)), b"x" * LIMIT, True),
    ],
    ids=[
        "html", "no content", "short body", "no length", "chunked", "bad chunk", "negative chunk", "length no number",
        "cut before headers", "cut in headers", "header too long", "too many headers", "garbage header", "cookie",
        "100", "103", "103 and 102", "at the limit", "over the limit",
    ],
)  # fmt: skip
def test_status_line_decides(data: bytes, body: bytes, cut: bool) -> None:
    answer = ask(raw(data))
    assert 200 <= answer.status < 300
    assert (answer.body, answer.body_cut) == (body, cut)


@pytest.mark.parametrize("status", [101, 301, 304, 400, 404, 410, 429, 500, 503, 599, 999])
def test_any_final_status_is_an_answer(status: int) -> None:
    answer = ask(reply(status, [("Retry-After", "7")]))
    assert (answer.status, answer.is_success, answer.headers["retry-after"]) == (status, False, "7")


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (leaving(), "connection_failed"),
        (raw(b"HTTP/1.1 103 Early Hints\r\n\r\n"), "connection_failed"),
        (raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "bad_answer"),
        (raw(b"HTTP/1.1 abc\r\n\r\n"), "bad_answer"),
        (raw(b"x" * 70_000 + b"\r\n\r\n"), "bad_answer"),
        (raw(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 30), "bad_answer"),
    ],
    ids=["leaves", "leaves after 103", "no http", "no number", "long line", "many 103"],
)
def test_no_status_line_is_a_failure_with_its_code(behaviour: Behaviour, code: str) -> None:
    with pytest.raises(OutboundError) as failure:
        ask(behaviour)
    assert failure.value.code == code


def test_closed_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(OutboundError, match=r"127\.0\.0\.1: Connection refused") as failure:
        send(f"http://127.0.0.1:{port}/")
    assert failure.value.code == "connection_refused"


# How much


@pytest.mark.parametrize("status", [200, 302, 500])
def test_endless_body_is_left_after_the_limit(status: int) -> None:
    head = f"HTTP/1.1 {status} X\r\nLocation: /elsewhere\r\n\r\n".encode()
    with Receiver(endless(head)) as receiver:
        tracemalloc.start()
        answer = send(receiver.url())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (answer.status, len(answer.body), answer.body_cut) == (status, LIMIT, True)
        assert len(receiver.conversations) == 1
    assert peak < 2_000_000


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed(status: int) -> None:
    with Receiver(reply(status, [("Location", "/login")]), reply(200)) as receiver:
        answer = send(receiver.url())
        assert (answer.status, answer.headers["location"]) == (status, "/login")
        assert len(receiver.conversations) == 1


def test_gzip_bomb_stays_packed() -> None:
    bomb = gzip_bomb(300)
    with Receiver(raw(bomb)) as receiver:
        tracemalloc.start()
        answer = send(receiver.url())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (answer.status, len(answer.body), answer.body_cut) == (200, LIMIT, True)
    assert bomb.partition(b"\r\n\r\n")[2].startswith(answer.body)
    assert peak < 2_000_000


# Whose certificate


def test_operators_authority_is_trusted_beside_the_others(authority: Authority) -> None:
    with Receiver(tls=authority.server_context("hooks.example.com")) as receiver:
        answer = send(receiver.url(host="hooks.example.com"), ca_bundle=authority.bundle)
        (request,) = receiver.requests
    assert (answer.status, request.headers["host"]) == (200, f"hooks.example.com:{receiver.port}")


def test_server_name_is_the_urls(authority: Authority) -> None:
    seen: list[str | None] = []
    tls = authority.server_context("hooks.example.com")
    tls.sni_callback = lambda connection, name, context: seen.append(name)
    with Receiver(tls=tls) as receiver:
        send(receiver.url(host="hooks.example.com."), ca_bundle=authority.bundle)
    assert seen == ["hooks.example.com"]


def test_unknown_authority_is_not_trusted(authority: Authority) -> None:
    with Receiver(tls=authority.server_context("127.0.0.1")) as receiver:
        with pytest.raises(OutboundError, match="certificate is not trusted") as failure:
            send(receiver.url())
        assert not receiver.requests
    assert failure.value.code == "tls_failed"


def test_certificate_of_another_name_is_not_trusted(authority: Authority) -> None:
    with Receiver(tls=authority.server_context("other.example.com")) as receiver:
        with pytest.raises(OutboundError, match=r"not trusted: .*[Hh]ostname mismatch"):
            send(receiver.url(host="hooks.example.com"), ca_bundle=authority.bundle)
        assert not receiver.requests


def test_environment_cannot_switch_verification_off(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(authority.bundle))
    with Receiver(tls=authority.server_context("127.0.0.1")) as receiver, pytest.raises(OutboundError, match="trusted"):
        send(receiver.url())


def test_plain_server_behind_https_is_a_tls_failure(authority: Authority) -> None:
    with Receiver(lambda conversation: conversation.send(http(400))) as receiver:
        url = receiver.url().replace("http://", "https://")
        with pytest.raises(OutboundError, match="TLS failed") as failure:
            send(url, ca_bundle=authority.bundle)
    assert failure.value.code == "tls_failed"


def test_missing_bundle_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutboundError, match="additional authorities") as failure:
        send("https://127.0.0.1/", ca_bundle=tmp_path / "missing.pem")
    assert failure.value.code == "tls_failed"


# Many at once


def test_many_threads_do_not_disturb_each_other(authority: Authority) -> None:
    def echo(conversation: Conversation) -> None:
        conversation.secure()
        request = conversation.read_request()
        number = json.loads(request.body)
        if number % 4 == 3:
            conversation.wait_for_client_to_leave()
        conversation.send(http(200, body=request.body))

    def one(url: str, number: int) -> int | None:
        try:
            answer = send(url, body=str(number).encode(), deadline_seconds=1.5, ca_bundle=authority.bundle)
        except TimedOut:
            return None
        return int(answer.body)

    open_files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with (
        Receiver(echo) as plain,
        Receiver(echo, tls=authority.server_context("127.0.0.1")) as secure,
        ThreadPoolExecutor(16) as pool,
    ):
        numbers = list(range(48))
        urls = [(plain, secure)[number % 2].url() for number in numbers]
        results = list(pool.map(one, urls, numbers))
    assert results == [None if number % 4 == 3 else number for number in numbers]
    assert len(os.listdir("/proc/self/fd")) <= open_files + 2  # noqa: PTH208
