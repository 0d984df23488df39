"""``requests`` bound to addresses that were judged before.

The connection goes to one of them; the ``Host`` header, TLS' server name and the certificate's check keep the name.
"""

import functools
import http.client
import logging
import socket
import ssl
from collections.abc import Sequence
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from taskqueue.outbound.deadline import Deadline
from taskqueue.outbound.errors import OutboundError, TimedOut
from taskqueue.outbound.judgement import Address

# urllib3 logs the whole URL, tokens included, at the word of the other side (a header it cannot parse).
for _name in ("urllib3.connection", "urllib3.connectionpool"):
    logging.getLogger(_name).setLevel(logging.ERROR)

# An informational answer is followed by another one; a peer that sends nothing else is not worth waiting for.
_MOST_INFORMATIONAL_ANSWERS = 20


class FinalAnswer(http.client.HTTPResponse):
    """An answer whose status is known as soon as its first line came, and that skips informational ones.

    ``http.client`` skips 100 but takes 103 for the final answer.
    """

    def begin(self) -> None:
        for _ in range(_MOST_INFORMATIONAL_ANSWERS):
            super().begin()
            if not 100 <= self.status < 200 or self.status == http.HTTPStatus.SWITCHING_PROTOCOLS:
                return
            self.headers = None  # type: ignore[assignment] # begin() returns at once while there are headers
        raise http.client.HTTPException("only informational answers came")

    @property
    def final_status(self) -> int | None:
        """The status, or None while no line with a final one came. Before the first line ``status`` is a text."""
        status: object = self.status
        return status if isinstance(status, int) and (status >= 200 or status == 101) else None


class PinnedAdapter(HTTPAdapter):
    """Sends every request to ``addresses``, whatever its URL says, within ``deadline``. For one exchange."""

    def __init__(self, addresses: Sequence[Address], *, deadline: Deadline, tls: ssl.SSLContext) -> None:
        self._addresses = addresses
        self._deadline = deadline
        self._tls = tls
        self.answers: list[FinalAnswer] = []
        super().__init__(pool_connections=1, pool_maxsize=1)

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, verify: Any, proxies: Any = None, cert: Any = None
    ) -> HTTPConnectionPool:
        host, _ = self.build_connection_pool_key_attributes(request, True, None)
        pinned: dict[str, Any] = {"addresses": self._addresses, "deadline": self._deadline, "answers": self.answers}
        pool: HTTPConnectionPool
        if host["scheme"] == "https":
            pool = HTTPSConnectionPool(host["host"], host["port"], ssl_context=self._tls, cert_reqs="CERT_REQUIRED")
            pool.ConnectionCls = functools.partial(_PinnedHTTPS, **pinned)  # type: ignore[assignment]
        else:
            pool = HTTPConnectionPool(host["host"], host["port"])
            pool.ConnectionCls = functools.partial(_PinnedHTTP, **pinned)  # type: ignore[assignment]
        return pool

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Status, headers and the body still to be read. The original also parses cookies, which nobody needs."""
        response = requests.Response()
        response.status_code = resp.status
        response.headers = CaseInsensitiveDict(resp.headers)
        response.raw = resp
        return response

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Nothing to add: the pool has its context. The original would load the authorities for each connection."""


class _Pinned(HTTPConnection):
    def __init__(
        self,
        *args: Any,
        addresses: Sequence[Address],
        deadline: Deadline,
        answers: list[FinalAnswer],
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self._addresses = addresses
        self._deadline = deadline
        self._answers = answers
        self.response_class = self._answer  # type: ignore[assignment] # called like the class

    def _answer(self, *args: Any, **settings: Any) -> FinalAnswer:
        answer = FinalAnswer(*args, **settings)
        self._answers.append(answer)
        return answer

    def _new_conn(self) -> socket.socket:
        """The addresses are tried in turn; one that does not react leaves the others their share of the time."""
        refusals = []
        for tried, address in enumerate(self._addresses):
            share = self._deadline.remaining_seconds() / (len(self._addresses) - tried)
            if share <= 0:
                break
            try:
                connection = socket.create_connection((str(address), self.port), timeout=share)
            except OSError as error:
                refusals.append((address, error))
                continue
            connection.settimeout(self._deadline.remaining_seconds())
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._deadline.watch(connection)
            return connection
        raise _not_connected(refusals)


class _PinnedHTTP(_Pinned):
    pass


class _PinnedHTTPS(_Pinned, HTTPSConnection):
    pass


def _not_connected(refusals: Sequence[tuple[Address, OSError]]) -> OutboundError:
    told = ", ".join(f"{address}: {error.strerror or 'no reaction'}" for address, error in refusals)
    if not refusals or any(isinstance(error, TimeoutError) for _, error in refusals):
        return TimedOut(f"no connection in time ({told or 'no time left'})")
    refused = all(isinstance(error, ConnectionRefusedError) for _, error in refusals)
    return OutboundError(f"no connection ({told})", code="connection_refused" if refused else "connection_failed")
