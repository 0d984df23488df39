"""A web server on loopback that takes webhooks and remembers them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, override

_LONGEST_BODY = 1_000_000
_MOST_REQUESTS = 1_000


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as it came. `arrived` is monotonic time."""

    line: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    arrived: float

    def header(self, name: str) -> str | None:
        return next((value for given, value in self.headers if given.lower() == name.lower()), None)

    @property
    def task_id(self) -> str | None:
        return self.header("Webhook-Id")


class Receiver:
    """Answers 200 to everything, from entering the context until leaving it; the port is a free one."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque(maxlen=_MOST_REQUESTS)
        received = self._requests

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 10

            def answer(self) -> None:
                length = self.headers.get("Content-Length", "0")
                body = self.rfile.read(min(int(length), _LONGEST_BODY)) if length.isdecimal() else b""
                received.append(
                    Request(
                        line=self.requestline,
                        headers=tuple(self.headers.items()),
                        body=body,
                        arrived=time.monotonic(),
                    )
                )
                text = b'{"received": true}'
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            @override
            def log_message(self, format: str, *args: object) -> None:
                """The demo shows requests itself."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True, name="receiver")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    @property
    def requests(self) -> Sequence[Request]:
        """Those that came, oldest first; the last thousand."""
        return tuple(self._requests)

    def of_task(self, task_id: str) -> Sequence[Request]:
        return [request for request in self.requests if request.task_id == task_id]
