"""Keeping secrets out of what is stored and shown: URLs, headers, and texts that may quote them."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

MASK = "***"

_SECRET_NAME = re.compile(
    r"auth|token|secret|signature|sig$|passw|pwd|passphrase|key|credential|cookie|session|code$|jwt|bearer",
    re.IGNORECASE,
)
# Replacing shorter ones would garble texts and hide nothing that is worth it.
_SHORTEST_SECRET = 4


def is_secret_name(name: str) -> bool:
    """Whether a header, a query parameter or a field of this name is likely to hold a secret."""
    return _SECRET_NAME.search(name) is not None


def mask_url(url: str) -> str:
    """The URL without name and password, and without the values of parameters that are likely secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(an unreadable address)"
    _, at, host = parts.netloc.rpartition("@")
    query = "&".join(_masked_parameter(parameter) for parameter in parts.query.split("&"))
    return urlunsplit((parts.scheme, f"{MASK}@{host}" if at else host, parts.path, query, parts.fragment))


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: MASK if is_secret_name(name) else value for name, value in headers.items()}


def secrets_in(url: str, headers: Mapping[str, str], others: Iterable[str | None] = ()) -> tuple[str, ...]:
    """Every secret of a request, longest first, so that ``scrub`` finds them wherever they are quoted."""
    found = {other for other in others if other}
    for name, value in headers.items():
        if is_secret_name(name):
            found |= {value, value.partition(" ")[2]}
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    found |= {login, *login.split(":", 1)}
    for parameter in parts.query.split("&"):
        name, _, value = parameter.partition("=")
        if is_secret_name(name):
            found.add(value)
    found |= {unquote(secret) for secret in found}
    return tuple(sorted((one for one in found if len(one) >= _SHORTEST_SECRET), key=len, reverse=True))


def scrub(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every secret in it masked."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _masked_parameter(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    return f"{name}={MASK}" if equals and value and is_secret_name(name) else parameter
