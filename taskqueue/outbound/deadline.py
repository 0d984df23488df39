"""A time limit for a whole exchange, kept whatever the other side does in the meantime.

Timeouts of sockets start anew with every byte that arrives, so a peer that sends one now and then holds a thread
for ever. Here a timer shuts the connection down, which ends any wait of the thread that uses it.
"""

import socket
import threading
import time
from types import TracebackType


class Deadline:
    """Use as a context manager around the exchange; ``watch`` each socket as soon as it exists."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends_at = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._watched: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._shut_down)
        self._timer.name = "deadline of an exchange"
        self._timer.daemon = True

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._ends_at

    def remaining_seconds(self) -> float:
        return max(self._ends_at - time.monotonic(), 0.0)

    def watch(self, connection: socket.socket) -> None:
        """Shut ``connection`` down when the time is over; at once if it is.

        A duplicate of the descriptor is kept: TLS takes the original away from its object, and a descriptor that was
        closed meanwhile might already be another connection's.
        """
        with self._lock:
            if self._watched is not None:
                self._watched.close()
            self._watched = connection.dup()
        if self.passed:
            self._shut_down()

    def __enter__(self) -> "Deadline":
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._watched is not None:
            self._watched.close()

    def _shut_down(self) -> None:
        with self._lock:
            if self._watched is not None:
                try:
                    self._watched.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # the other side was quicker
