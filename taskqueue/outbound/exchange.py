"""One HTTP request and its answer: bounded in time and memory, without redirects, proxies or stored passwords."""

import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

import requests
from requests.structures import CaseInsensitiveDict
from urllib3.exceptions import HTTPError

from taskqueue.outbound.deadline import Deadline
from taskqueue.outbound.errors import OutboundError, TimedOut
from taskqueue.outbound.judgement import Network
from taskqueue.outbound.pinning import FinalAnswer, PinnedAdapter
from taskqueue.outbound.resolution import Resolver, resolve, system_resolver
from taskqueue.outbound.target import prepare, target_of
from taskqueue.outbound.tls import client_context

DEADLINE_SECONDS = 10.0
BODY_LIMIT_BYTES = 64 * 1024

_BROKEN = (requests.RequestException, HTTPError, HTTPException, OSError, ValueError)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back. ``body`` is as it was on the wire; ``body_cut`` says that more was there or was announced."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    body_cut: bool
    duration_ms: int

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """How requests are made: whom they may reach, whom TLS believes, how long they may take and what is read.

    There is no session of ``requests``: it is what follows redirects (and reads their bodies whole even when told
    not to), and what looks for proxies and for passwords in ``~/.netrc``.
    """

    allowed_networks: Sequence[Network] = ()
    ca_bundle: Path | None = None
    deadline_seconds: float = DEADLINE_SECONDS
    body_limit_bytes: int = BODY_LIMIT_BYTES
    resolver: Resolver = system_resolver

    def request(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Send ``body`` as it is and wait for the answer.

        Once the status line has come there is an answer, however the rest of it goes. Raises ``AddressRefused`` or
        another ``OutboundError``, and ``ValueError`` for a URL or header that cannot be sent.
        """
        started = time.monotonic()
        target = target_of(url)
        prepared = prepare(
            method,
            url,
            # Compressed bodies could be a thousand times what they weigh; connections are not kept.
            headers={**headers, "Accept-Encoding": "identity", "Connection": "close"},
            body=body,
        )
        tls = client_context(self.ca_bundle)
        with Deadline(self.deadline_seconds) as deadline:
            addresses = resolve(
                target.host,
                allowed_networks=self.allowed_networks,
                resolver=self.resolver,
                timeout_seconds=deadline.remaining_seconds(),
            )
            adapter = PinnedAdapter(addresses, deadline=deadline, tls=tls)
            try:
                response = adapter.send(prepared, stream=True, timeout=deadline.remaining_seconds())
                try:
                    read, cut = _read(response, self.body_limit_bytes)
                finally:
                    response.raw.close()
                status, received = response.status_code, response.headers
                cut = cut or deadline.passed
            except _BROKEN as error:
                known = _status_line(adapter.answers)
                if known is None:
                    raise _failure(error, deadline) from error
                status, received, read, cut = known, CaseInsensitiveDict(), b"", True
        duration_ms = round((time.monotonic() - started) * 1000)
        return Answer(status=status, headers=received, body=read, body_cut=cut, duration_ms=duration_ms)


def _read(response: requests.Response, limit: int) -> tuple[bytes, bool]:
    """The body up to ``limit`` bytes as they arrive, and whether there is more or should have been."""
    body = b""
    try:
        while len(body) <= limit:
            piece = response.raw.read1(limit + 1 - len(body), decode_content=False)
            if not piece:
                return body, False
            body += piece
    except _BROKEN:
        return body[:limit], True
    return body[:limit], True


def _status_line(answers: Sequence[FinalAnswer]) -> int | None:
    return next((status for answer in answers if (status := answer.final_status) is not None), None)


def _failure(error: Exception, deadline: Deadline) -> OutboundError:
    chain = _chain(error)
    if deadline.passed or any(isinstance(one, TimeoutError | requests.Timeout) for one in chain):
        return TimedOut(f"no answer within {deadline.seconds:g} s")
    for one in chain:
        if isinstance(one, ssl.SSLCertVerificationError):
            return OutboundError(f"the certificate is not trusted: {one.verify_message}", code="tls_failed")
        if isinstance(one, ssl.SSLError):
            return OutboundError(f"TLS failed: {one.reason or one}", code="tls_failed")
    if any(isinstance(one, HTTPException) and not isinstance(one, ConnectionError) for one in chain):
        return OutboundError("what came back is not an HTTP answer", code="bad_answer")
    return OutboundError("the connection was closed before an answer came", code="connection_failed")


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error, what caused it, and what the libraries wrapped as arguments."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting and len(found) < 50:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and not any(one is known for known in found):
            found.append(one)
            waiting += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
    return found
