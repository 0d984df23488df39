"""Hosts of datasources are judged as webhooks' are, but by the networks that the operator allows datasources."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest

from experiments.errors import DatasourceError
from experiments.warehouse.addresses import Rules

_PRIVATE = Rules(allowed_networks=[ip_network("10.0.0.0/8")])
_LOOPBACK = Rules(allowed_networks=[ip_network("127.0.0.1/32")])


def _refusal(rules: Rules, host: str) -> DatasourceError:
    with pytest.raises(DatasourceError) as fault:
        rules.addresses_of(host)
    assert fault.value.field == "host"
    return fault.value


def test_a_public_address_is_reached_and_comes_back_plain() -> None:
    assert Rules().addresses_of("8.8.8.8") == (IPv4Address("8.8.8.8"),)
    assert Rules().addresses_of("::ffff:8.8.8.8") == (IPv4Address("8.8.8.8"),)
    assert Rules().addresses_of("2600::1") == (IPv6Address("2600::1"),)


@pytest.mark.parametrize(
    "host", ["10.1.2.3", "192.168.0.1", "169.254.169.254", "127.0.0.1", "localhost", "0", "::1", "fd00::1", "0x0a.1"]
)
def test_a_private_address_is_refused_and_the_setting_named(host: str) -> None:
    refused = _refusal(Rules(), host)
    assert refused.code == "address_refused"
    assert "XNGIN_DATASOURCE_ALLOWED_NETWORKS" in str(refused)


def test_what_the_operator_allows_is_reached_and_nothing_beside_it() -> None:
    assert _PRIVATE.addresses_of("10.1.2.3") == (IPv4Address("10.1.2.3"),)
    assert _refusal(_PRIVATE, "192.168.0.1").code == "address_refused"


@pytest.mark.parametrize("host", ["", "no such host", "absent.invalid", "a" * 300, "\x00", "größe..example"])
def test_a_host_that_is_none_is_told(host: str) -> None:
    assert _refusal(Rules(), host).code == "connection_failed"


def test_a_socket_needs_the_permission_for_this_machine() -> None:
    _LOOPBACK.check_socket("/var/run/postgresql")
    for rules in (Rules(), _PRIVATE):
        with pytest.raises(DatasourceError, match="XNGIN_DATASOURCE_ALLOWED_NETWORKS") as fault:
            rules.check_socket("/var/run/postgresql")
        assert fault.value.code == "address_refused"


def test_a_socket_is_one_place() -> None:
    # The driver would try 10.0.0.1, too, which nobody judged.
    with pytest.raises(DatasourceError, match="comma") as fault:
        _LOOPBACK.check_socket("/absent,10.0.0.1")
    assert fault.value.code == "address_refused"
