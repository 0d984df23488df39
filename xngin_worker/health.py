"""Liveness and readiness of a worker over HTTP, for whoever supervises the process."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from taskqueue.service import Service


class HealthServer(Service):
    """``/live``: 200 while the loops turn. ``/ready``: 200 while the worker takes work. Else 503, and 404 elsewhere."""

    name = "health"

    def __init__(
        self,
        *,
        port: int,
        alive: Callable[[], bool],
        ready: Callable[[], bool],
        on_failure: Callable[[str, BaseException], None],
    ) -> None:
        super().__init__(on_failure=on_failure)
        answers = {"/live": alive, "/ready": ready}

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                answer = answers.get(self.path)
                good = answer is not None and answer()
                body = json.dumps({self.path.strip("/"): good}).encode() if answer else b"{}"
                self.send_response(404 if answer is None else 200 if good else 503)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """A probe every few seconds is not worth a line."""

        # Probes come from outside the container, so every interface is meant.
        self._server = ThreadingHTTPServer(("0.0.0.0", port), Handler)  # noqa: S104
        self._server.daemon_threads = True
        self._server.timeout = 0.5

    def look(self) -> float:
        self._server.handle_request()
        return 0.0

    def close(self) -> None:
        self._server.server_close()
