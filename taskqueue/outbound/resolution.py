"""From a host to the addresses a connection may use: resolved once, within a time limit, every one of them judged."""

import socket
import threading
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from queue import Empty, SimpleQueue

from taskqueue.outbound.errors import AddressRefused, NameNotResolved, TimedOut
from taskqueue.outbound.judgement import Address, Network, may_be_reached, plain

# The addresses of a name, as text. Raises OSError (socket.gaierror) when there are none.
type Resolver = Callable[[str], Sequence[str]]

# A lookup cannot be cancelled, only left behind; a resolver that hangs must not collect threads without end.
_MOST_LOOKUPS_AT_ONCE = 64
_lookups = threading.BoundedSemaphore(_MOST_LOOKUPS_AT_ONCE)


def system_resolver(host: str) -> Sequence[str]:
    """The operating system's answer, in the order in which it would connect."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def resolve(
    host: str,
    *,
    allowed_networks: Sequence[Network] = (),
    resolver: Resolver = system_resolver,
    timeout_seconds: float = 5.0,
) -> tuple[Address, ...]:
    """The addresses of ``host`` (a name or an address in any notation, without brackets), in order of preference.

    Connect to one of these and never to the name again, whose next answer may be another one. Raises
    ``AddressRefused`` if any of them must not be reached, since which one is used would be the resolver's choice;
    ``NameNotResolved`` if there is none; ``TimedOut``.
    """
    texts = _numeric(host) or _look_up(host, resolver, timeout_seconds)
    try:
        addresses = tuple(dict.fromkeys(plain(ip_address(text)) for text in texts))
    except ValueError as error:
        raise NameNotResolved(f"{host} resolves to something that is not an address") from error
    if not addresses:
        raise NameNotResolved(f"{host} has no address")
    for address in addresses:
        if not may_be_reached(address, allowed_networks):
            what = f"{host} is" if host == str(address) else f"{host} resolves to {address},"
            raise AddressRefused(f"{what} not a public address, and in none of the allowed networks")
    return addresses


def _numeric(host: str) -> Sequence[str]:
    """The address that the host already is, in whatever notation the system's own parser takes: ``0x7f.1`` too."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return ()
    return [str(one[4][0]) for one in found]


def _look_up(host: str, resolver: Resolver, timeout_seconds: float) -> Sequence[str]:
    if not _lookups.acquire(blocking=False):
        raise TimedOut(f"{host} was not looked up: {_MOST_LOOKUPS_AT_ONCE} other lookups are still unanswered")
    answer: SimpleQueue[Sequence[str] | Exception] = SimpleQueue()

    def look_up() -> None:
        try:
            answer.put(resolver(host))
        except (OSError, UnicodeError) as error:
            answer.put(error)
        finally:
            _lookups.release()

    threading.Thread(target=look_up, name=f"lookup of {host}", daemon=True).start()
    try:
        found = answer.get(timeout=max(timeout_seconds, 0.0))
    except Empty:
        raise TimedOut(f"{host} was not resolved within {timeout_seconds:.1f} s") from None
    if isinstance(found, Exception):
        reason = found.strerror if isinstance(found, OSError) else str(found)
        raise NameNotResolved(f"{host} does not resolve: {reason}") from found
    return found
