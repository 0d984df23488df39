"""A host is resolved once, and every address it has must be one that may be reached."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import pytest

from taskqueue.outbound.errors import AddressRefused, NameNotResolved, TimedOut
from taskqueue.outbound.resolution import resolve

LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]


class Names:
    """A name server with a fixed answer for each query in turn; the last one stays."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


def refuse_to_answer(host: str) -> Sequence[str]:
    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "0",
        "169.254.169.254",
        "2852039166",
        "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376",
        "10.1",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "0:0:0:0:0:ffff:a9fe:a9fe",
        "64:ff9b::127.0.0.1",
        "fe80::1",
    ],
)
def test_private_address_is_refused_in_every_notation_without_a_query(host: str) -> None:
    server = Names(["1.1.1.1"])
    with pytest.raises(AddressRefused):
        resolve(host, resolver=server)
    assert server.asked == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST"])
def test_name_of_this_machine_is_refused(host: str) -> None:
    with pytest.raises(AddressRefused, match="not a public address"):
        resolve(host)


def test_public_addresses_keep_the_order_of_the_resolver() -> None:
    server = Names(["2606:4700:4700::1111", "1.1.1.1", "1.1.1.1"])
    assert resolve("one.example", resolver=server) == (ip_address("2606:4700:4700::1111"), ip_address("1.1.1.1"))
    assert server.asked == ["one.example"]


@pytest.mark.parametrize("addresses", [["1.1.1.1", "10.0.0.1"], ["10.0.0.1", "1.1.1.1"], ["1.1.1.1", "::1"]])
def test_name_with_a_public_and_a_private_address_is_refused(addresses: list[str]) -> None:
    with pytest.raises(AddressRefused, match=r"both\.example resolves to (10\.0\.0\.1|::1)"):
        resolve("both.example", resolver=Names(addresses))


def test_mapped_address_becomes_the_one_that_is_reached() -> None:
    assert resolve("::ffff:127.0.0.1", allowed_networks=LOOPBACK) == (ip_address("127.0.0.1"),)


@pytest.mark.parametrize("answer", [[], ["not an address"]])
def test_name_without_an_address_is_not_resolved(answer: list[str]) -> None:
    with pytest.raises(NameNotResolved):
        resolve("none.example", resolver=Names(answer))


def test_failing_name_server_is_told_in_its_own_words() -> None:
    with pytest.raises(NameNotResolved, match=r"away\.example does not resolve: Temporary failure"):
        resolve("away.example", resolver=refuse_to_answer)


def test_label_that_is_too_long_is_not_resolved() -> None:
    with pytest.raises(NameNotResolved):
        resolve("a" * 64 + ".example")


def test_silent_name_server_is_left_behind_in_time() -> None:
    release = threading.Event()
    done = threading.Event()

    def hang(host: str) -> Sequence[str]:
        release.wait(10)
        done.set()
        return ["1.1.1.1"]

    started = time.monotonic()
    with pytest.raises(TimedOut):
        resolve("slow.example", resolver=hang, timeout_seconds=0.1)
    assert time.monotonic() - started < 2
    release.set()
    assert done.wait(10)


def test_lookups_that_hang_do_not_collect_threads_without_end() -> None:
    release = threading.Event()

    def hang(host: str) -> Sequence[str]:
        release.wait(10)
        return ["1.1.1.1"]

    before = threading.active_count()
    for _ in range(64):
        with pytest.raises(TimedOut, match="was not resolved"):
            resolve("slow.example", resolver=hang, timeout_seconds=0)
    with pytest.raises(TimedOut, match="other lookups"):
        resolve("slow.example", resolver=hang, timeout_seconds=0)
    assert threading.active_count() <= before + 64
    release.set()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert resolve("slow.example", resolver=Names(["1.1.1.1"])) == (ip_address("1.1.1.1"),)
