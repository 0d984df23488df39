"""Something between a client and a PostgreSQL server: it may swallow everything from a moment on, or speak TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress

_SSL_REQUEST = bytes.fromhex("0000000804d2162f")


class Proxy:
    """On a port of 127.0.0.1; the server's own host may be a socket's folder. ``hold`` is like a cable that is pulled:
    nobody hears of it."""

    def __init__(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        self._server = (host, port)
        self._tls = tls
        self._held = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._start(self._accept)

    def hold(self) -> None:
        self._held.set()

    def close(self) -> None:
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(5)

    def _start(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        if self._held.is_set():
            return
        try:
            if self._tls is not None:
                if client.recv(8, socket.MSG_WAITALL) != _SSL_REQUEST:
                    client.close()
                    return
                client.sendall(b"S")
                client = self._tls.wrap_socket(client, server_side=True)
                self._sockets.append(client)
            server = self._connected()
        except OSError:
            client.close()
            return
        self._sockets.append(server)
        self._start(self._copy, client, server)
        self._start(self._copy, server, client)

    def _connected(self) -> socket.socket:
        host, port = self._server
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while received := source.recv(65_536):
                if not self._held.is_set():
                    target.sendall(received)
            if not self._held.is_set():
                target.shutdown(socket.SHUT_RDWR)
