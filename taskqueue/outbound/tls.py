"""Whose certificates are believed: the system's authorities, those of ``certifi``, and the operator's own."""

import functools
import ssl
from pathlib import Path

import certifi

from taskqueue.outbound.errors import OutboundError


def client_context(ca_bundle: Path | str | None) -> ssl.SSLContext:
    """A context that verifies certificates and names, always. ``ca_bundle`` adds authorities, it replaces none.

    Contexts are kept, as loading the authorities costs more than a handshake; a bundle that changed is read again.
    """
    if ca_bundle is None:
        return _context(None, 0, 0)
    try:
        state = Path(ca_bundle).stat()
        return _context(str(ca_bundle), state.st_mtime_ns, state.st_size)
    except (OSError, ssl.SSLError) as error:
        raise OutboundError(f"the file of additional authorities cannot be used: {error}", code="tls_failed") from error


@functools.lru_cache(maxsize=4)
def _context(ca_bundle: str | None, _modified_ns: int, _size: int) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(cafile=certifi.where())
    if ca_bundle is not None:
        context.load_verify_locations(cafile=ca_bundle)
    # Python 3.13 refuses, and 3.12 accepts, certificates with formal faults that many private authorities have. Whom
    # a certificate belongs to is checked either way; which receivers work must not depend on the Python.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
