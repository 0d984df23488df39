"""Headers a caller may set. Names that are ours or the protocol's are refused, and so is what HTTP cannot carry."""

import re
from collections.abc import Iterable

MOST_HEADERS = 100
LONGEST_NAME = 200
LONGEST_VALUE = 8192

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

# Ours, or decided by the connection: with two of them, sender and receiver might disagree where a request ends.
_RESERVED = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "x-correlation-id",
    }
)
_RESERVED_PREFIXES = ("proxy-", "webhook-")


def name_problem(name: str) -> str | None:
    """Why a header cannot have this name, or None."""
    if len(name) > LONGEST_NAME or not _TOKEN.fullmatch(name):
        return f"is not a header name: 1 to {LONGEST_NAME} letters, digits or hyphens"
    if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIXES):
        return "is set by the sender and cannot be given"
    return None


def value_problem(value: str) -> str | None:
    """Why a header cannot have this value, or None. The value itself is never told, since it may be a secret."""
    if _CONTROL.search(value):
        return "has a line break or another control character in it"
    if not value.isascii():
        try:
            value.encode("latin-1")
        except UnicodeEncodeError as error:
            return (
                f"has a character that HTTP headers cannot carry (number {error.start + 1}); only Latin-1 is possible"
            )
    if value != value.strip(" \t"):
        return "begins or ends with a blank"
    if len(value) > LONGEST_VALUE:
        return f"has {len(value)} characters; {LONGEST_VALUE} are allowed"
    return None


def set_problem(names: Iterable[str]) -> str | None:
    """Why these names cannot be sent together, or None."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            return f"{other} and {name} are the same header"
    return f"{len(seen)} headers are given; {MOST_HEADERS} are allowed" if len(seen) > MOST_HEADERS else None
