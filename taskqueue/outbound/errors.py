"""What can go wrong on the way to somebody else's host. ``code`` is stable, the text is for people."""


class OutboundError(Exception):
    """The other side was not reached or did not answer. Trying again later may help."""

    code = "connection_failed"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        if code is not None:
            self.code = code
        super().__init__(message)


class AddressRefused(OutboundError):
    """The host is, or resolves to, an address that must not be reached. Trying again does not help."""

    code = "address_refused"


class NameNotResolved(OutboundError):
    """The name has no address now."""

    code = "dns_failed"


class TimedOut(OutboundError):
    """The time for the whole exchange was used up before the answer's status line came."""

    code = "timeout"
