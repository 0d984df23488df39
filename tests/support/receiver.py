"""A web server for tests that behaves as badly as one likes: it answers late, bit by bit, without end, or not at all.

Each connection is played by a *behaviour*, a function of the `Conversation`. Several are used up one per connection,
the last one stays. What was received is kept byte for byte.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType

PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class ReceivedRequest:
    head: bytes
    body: bytes

    @property
    def request_line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode("latin-1")

    @property
    def method(self) -> str:
        return self.request_line.split(" ")[0]

    @property
    def path(self) -> str:
        return self.request_line.split(" ")[1]

    @property
    def header_lines(self) -> list[tuple[str, str]]:
        """Names and values in the order and spelling in which they came."""
        lines = self.head.split(b"\r\n")[1:]
        pairs = (line.decode("latin-1").partition(":") for line in lines if line)
        return [(name, value.strip()) for name, _, value in pairs]

    @property
    def headers(self) -> dict[str, str]:
        """By lower-case name. A name that came twice is a mistake of the sender."""
        headers: dict[str, str] = {}
        for name, value in self.header_lines:
            if name.lower() in headers:
                raise AssertionError(f"the header {name} came twice")
            headers[name.lower()] = value
        return headers


@dataclass(kw_only=True)
class Conversation:
    """One accepted connection, seen from the server."""

    connection: socket.socket
    stopping: threading.Event
    tls: ssl.SSLContext | None
    record: Callable[[ReceivedRequest], None]
    sent_bytes: int = 0
    server_name: str | None = None
    _buffer: bytes = field(default=b"", repr=False)

    def secure(self) -> None:
        """Do the TLS handshake, if this server speaks TLS."""
        if self.tls is not None:
            self.connection = self.tls.wrap_socket(self.connection, server_side=True)

    def read_request(self) -> ReceivedRequest:
        """The next request: its head, and as many bytes as it announced."""
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                length = int(value)
        while len(self._buffer) < length:
            self._receive()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        request = ReceivedRequest(head=head, body=body)
        self.record(request)
        return request

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)
        self.sent_bytes += len(data)

    def drip(self, data: bytes, interval_seconds: float) -> None:
        """Send one byte, wait, and so on."""
        for byte in data:
            self.send(bytes([byte]))
            self.wait(interval_seconds)

    def wait(self, seconds: float) -> None:
        """Do nothing, but not after the end of the test."""
        if self.stopping.wait(seconds):
            raise ConnectionAbortedError("the test is over")

    def wait_for_client_to_leave(self) -> None:
        while self.connection.recv(65536):
            pass

    def _receive(self) -> None:
        data = self.connection.recv(65536)
        if not data:
            raise ConnectionAbortedError("the client left")
        self._buffer += data


type Behaviour = Callable[[Conversation], None]


class Receiver:
    """The server, on a free port of loopback. Use as a context manager."""

    def __init__(
        self,
        *behaviours: Behaviour,
        tls: ssl.SSLContext | None = None,
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._behaviours = list(behaviours or (reply(200),))
        self._tls = tls
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._requests: list[ReceivedRequest] = []
        self._conversations: list[Conversation] = []
        self._threads: list[threading.Thread] = []
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family, backlog=128)
        self.host = address
        self.port: int = self._listener.getsockname()[1]

    def url(self, path: str = "/", *, host: str | None = None) -> str:
        scheme = "http" if self._tls is None else "https"
        name = host or (f"[{self.host}]" if ":" in self.host else self.host)
        return f"{scheme}://{name}:{self.port}{path}"

    @property
    def requests(self) -> Sequence[ReceivedRequest]:
        with self._changed:
            return tuple(self._requests)

    @property
    def conversations(self) -> Sequence[Conversation]:
        with self._changed:
            return tuple(self._conversations)

    def wait_for_requests(self, count: int, timeout_seconds: float = PATIENCE_SECONDS) -> Sequence[ReceivedRequest]:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, timeout_seconds):
                raise AssertionError(f"{len(self._requests)} of {count} requests came in {timeout_seconds} s")
            return tuple(self._requests)

    def wait_for_connections(self, count: int, timeout_seconds: float = PATIENCE_SECONDS) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._conversations) >= count, timeout_seconds):
                raise AssertionError(f"{len(self._conversations)} of {count} connections came in {timeout_seconds} s")

    def __enter__(self) -> Receiver:
        self._spawn(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        # A thread in accept() is not woken by close(), only by shutdown().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for conversation in self.conversations:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(conversation.connection, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            if thread.is_alive():
                raise AssertionError(f"{thread.name} of the receiver did not end")

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                played = len(self._conversations)
                behaviour = self._behaviours[min(played, len(self._behaviours) - 1)]
                conversation = Conversation(
                    connection=connection, stopping=self._stopping, tls=self._tls, record=self._record
                )
                self._conversations.append(conversation)
                self._changed.notify_all()
            self._spawn(functools.partial(_play, behaviour, conversation))

    def _record(self, request: ReceivedRequest) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def _spawn(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=f"receiver on {self.port}", daemon=True)
        self._threads.append(thread)
        thread.start()


def _play(behaviour: Behaviour, conversation: Conversation) -> None:
    # A client that leaves, or a handshake that it breaks off, is part of what is being tested.
    with contextlib.suppress(OSError):
        behaviour(conversation)
    with contextlib.suppress(OSError):
        conversation.connection.close()


def http(status: int, headers: Sequence[tuple[str, str]] = (), body: bytes = b"") -> bytes:
    """A whole answer as it goes over the wire."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *(f"{n}: {v}" for n, v in headers)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def reply(status: int, headers: Sequence[tuple[str, str]] = (), body: bytes = b"") -> Behaviour:
    """A well-behaved answer."""
    return raw(http(status, headers, body))


def raw(data: bytes) -> Behaviour:
    """Exactly these bytes, then the end of the connection."""

    def behave(conversation: Conversation) -> None:
        conversation.secure()
        conversation.read_request()
        conversation.send(data)

    return behave


def dripping(prompt: bytes, dripped: bytes, interval_seconds: float = 0.05) -> Behaviour:
    """`prompt` at once, then `dripped` byte by byte over and over until the client leaves."""

    def behave(conversation: Conversation) -> None:
        conversation.secure()
        conversation.read_request()
        conversation.send(prompt)
        while True:
            conversation.drip(dripped, interval_seconds)

    return behave


def dripping_handshake(interval_seconds: float = 0.05) -> Behaviour:
    """The beginning of a TLS record, byte by byte."""

    def behave(conversation: Conversation) -> None:
        conversation.send(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03")
        while True:
            conversation.drip(b"\x00", interval_seconds)

    return behave


def endless(prompt: bytes) -> Behaviour:
    """`prompt`, then a body as fast as the client takes it."""

    def behave(conversation: Conversation) -> None:
        conversation.secure()
        conversation.read_request()
        conversation.send(prompt)
        while not conversation.stopping.is_set():
            conversation.send(b"x" * 65536)

    return behave


def silent() -> Behaviour:
    """The request is read and never answered."""

    def behave(conversation: Conversation) -> None:
        conversation.secure()
        conversation.read_request()
        conversation.wait_for_client_to_leave()

    return behave


def leaving() -> Behaviour:
    """The request is read and the connection closed."""

    def behave(conversation: Conversation) -> None:
        conversation.secure()
        conversation.read_request()

    return behave


def gzip_bomb(megabytes: int) -> bytes:
    """An answer whose body is small on the wire and `megabytes` large when unpacked."""
    body = gzip.compress(b"\x00" * (megabytes * 1024 * 1024))
    return http(200, [("Content-Encoding", "gzip"), ("Content-Type", "application/json")], body)


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """A port of loopback that takes no connection and refuses none: its queue of connections is full."""
    with contextlib.ExitStack() as open_sockets:
        listener = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port: int = listener.getsockname()[1]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            filler = open_sockets.enter_context(socket.socket())
            filler.settimeout(0.2)
            try:
                filler.connect(("127.0.0.1", port))
            except TimeoutError:
                yield port
                return
        raise AssertionError("the queue of connections did not fill up")
