"""Which addresses may be reached: public ones, and those in networks that the operator allows.

At least as strict as the filter of ``requests-hardened``, whose extra ranges are used; a test compares the two.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from requests_hardened.ip_filter import EXTRA_BLOCKED_NET_RANGES

type Address = IPv4Address | IPv6Address
type Network = IPv4Network | IPv6Network

# Every public unicast address of IPv6 is in this block; what lies outside is local, special or not handed out.
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_IPV4_COMPATIBLE = IPv6Network("::/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")


def plain(address: Address) -> Address:
    """The address that packets really carry: the kernel reaches ``::ffff:a.b.c.d`` over IPv4."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def may_be_reached(address: Address, allowed_networks: Sequence[Network]) -> bool:
    """Whether a connection to ``address`` is allowed.

    An IPv6 address that a gateway turns into an IPv4 one (NAT64, 6to4, Teredo) is allowed only if both are: the
    operator's permission for a translated range is no permission for every private address behind it.
    """
    address = plain(address)
    return all(
        _is_public(one) or any(one in network for network in allowed_networks) for one in (address, *_carried(address))
    )


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _PUBLIC_IPV6:
        return False
    # is_global is true for multicast and, in older Pythons, for ranges that became special later.
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in network for network in EXTRA_BLOCKED_NET_RANGES)
    )


def _carried(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses inside an IPv6 address of a translating or tunnelling range."""
    if isinstance(address, IPv4Address):
        return
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    last_32_bits = IPv4Address(int(address) & 0xFFFF_FFFF)
    if address in _NAT64 or address in _NAT64_LOCAL:
        yield last_32_bits
    if address in _NAT64_LOCAL:
        # With the whole /48 as prefix the address sits around bits 64 to 71, which stay zero (RFC 6052).
        bits = int(address)
        yield IPv4Address((bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF)
    if address in _IPV4_COMPATIBLE and int(last_32_bits) > 1:
        yield last_32_bits
