"""A loop in a thread of its own that can be woken and stopped."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable


class Service(ABC):
    """Looks once, then waits for as many seconds as ``look`` returned, or until it is woken.

    ``on_failure`` hears of an exception that ``look`` did not handle, from the service's own thread; the loop has
    ended then. Stop is allowed before start, and twice.
    """

    name: str = "service"

    def __init__(self, *, on_failure: Callable[[str, BaseException], None]) -> None:
        self._on_failure = on_failure
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def look(self) -> float:
        """Do what there is to do now; return the seconds until the next look."""

    def close(self) -> None:  # noqa: B027 - most services hold nothing
        """Give up connections. Runs in the service's thread when the loop ends, however it ends."""

    def start(self) -> None:
        if self._thread is None and not self._stopping.is_set():
            self._thread = threading.Thread(target=self._loop, name=self.name, daemon=True)
            self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        self._stopping.set()
        self._woken.set()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the thread to end; True when it has."""
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        return self._thread is None or not self._thread.is_alive()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def _loop(self) -> None:
        try:
            while not self._stopping.is_set():
                seconds = self.look()
                self._woken.wait(seconds)
                self._woken.clear()
        except BaseException as error:  # noqa: BLE001 - handed to the supervisor, which ends the process
            self._on_failure(self.name, error)
        finally:
            self.close()
