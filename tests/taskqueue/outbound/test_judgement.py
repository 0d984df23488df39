"""Public addresses are reached, others only where the operator allows them."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
import requests_hardened.ip_filter
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.outbound.judgement import Address, may_be_reached

PUBLIC = ["1.1.1.1", "93.184.215.14", "::ffff:1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"]

SPECIAL = [
    "0.0.0.0",  # noqa: S104 - refused, not bound
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::808:808",
    "64:ff9b:1::7f00:1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_reached(address: str) -> None:
    assert may_be_reached(ip_address(address), ())


@pytest.mark.parametrize("address", SPECIAL)
def test_special_address_is_refused(address: str) -> None:
    assert not may_be_reached(ip_address(address), ())


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("127.0.0.1", "127.0.0.0/8"),
        ("::ffff:127.0.0.1", "127.0.0.0/8"),
        ("10.1.2.3", "10.1.0.0/16"),
        ("::1", "::1/128"),
        ("fd12::1", "fd12::/16"),
        ("64:ff9b::808:808", "64:ff9b::/96"),
    ],
)
def test_address_in_an_allowed_network_is_reached(address: str, network: str) -> None:
    assert may_be_reached(ip_address(address), [ip_network(network)])


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("127.0.0.1", "10.0.0.0/8"),
        ("64:ff9b::a9fe:a9fe", "64:ff9b::/96"),
        ("64:ff9b:1::a00:1", "64:ff9b:1::/48"),
        ("64:ff9b:1:a00:0:100::", "64:ff9b:1::/48"),
        ("2002:7f00:1::1", "2002::/16"),
        ("2001:0:7f00:1::", "2001::/32"),
        ("::7f00:1", "::/0"),
        ("64:ff9b::7f00:1", "127.0.0.0/8"),
    ],
)
def test_permission_for_a_range_is_none_for_what_lies_behind_it(address: str, network: str) -> None:
    assert not may_be_reached(ip_address(address), [ip_network(network)])


def test_private_address_behind_a_translator_is_reached_when_both_are_allowed() -> None:
    allowed = [ip_network("64:ff9b::/96"), ip_network("10.0.0.0/8")]
    assert may_be_reached(ip_address("64:ff9b::a00:1"), allowed)


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_nothing_is_reached_that_the_library_refuses(address: Address) -> None:
    try:
        requests_hardened.ip_filter.get_ip_address(str(address), 80, allow_loopback=False)
    except requests_hardened.ip_filter.InvalidIPAddress:
        assert not may_be_reached(address, ())
