"""Where a URL leads, as the library that sends the request reads it: filters are fooled by two readings of one URL."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

import requests
from urllib3.util import parse_url

LONGEST_URL = 2048

_NEVER_IN_A_URL = re.compile(r"[\x00-\x20\x7f-\x9f\\\ud800-\udfff]")
_HOST = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=-]+|[0-9A-Fa-f:.]+")


@dataclass(frozen=True, kw_only=True)
class Target:
    scheme: str
    host: str
    port: int

    @property
    def destination(self) -> str:
        """The same for every spelling of the same receiver."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host.rstrip('.')}:{self.port}"


def target_of(url: str) -> Target:
    """Host (without brackets, IDNA-encoded, lower case) and port. Raises ``ValueError`` saying what is wrong."""
    if len(url) > LONGEST_URL:
        raise ValueError(f"has {len(url)} characters; {LONGEST_URL} are allowed")
    if _NEVER_IN_A_URL.search(url):
        raise ValueError("has white space, a backslash or a character in it that is none")
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    prepared = prepare("GET", url, headers={}, body=None)
    parts = urlsplit(prepared.url or "")
    host = parts.hostname or ""
    if not host.rstrip(".") or len(host) > 253 or not _HOST.fullmatch(host):
        raise ValueError("has no host, or one that cannot be a name or an address")
    with contextlib.suppress(ValueError):
        host = str(ip_address(host))
    if parse_url(url).port == 0:  # which the library takes for no port
        raise ValueError("has port 0")
    port = parts.port if parts.port is not None else {"http": 80, "https": 443}[parts.scheme]
    return Target(scheme=parts.scheme, host=host, port=port)


def prepare(method: str, url: str, *, headers: Mapping[str, str], body: bytes | None) -> requests.PreparedRequest:
    """The request as it will be sent. A name and password in the URL become ``Authorization``, unless it is given.

    Raises ``ValueError``, never quoting the URL, which may hold a password.
    """
    prepared = requests.PreparedRequest()
    try:
        prepared.prepare(method=method, url=url, headers=headers, data=body)
    except (requests.RequestException, ValueError) as error:
        raise ValueError("is not a URL that a request can be sent to") from error
    given = next((value for name, value in headers.items() if name.lower() == "authorization"), None)
    if given is not None:
        prepared.headers["Authorization"] = given
    return prepared
