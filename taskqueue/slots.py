"""The pool of threads in which handlers run."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from taskqueue.running import Held


class Slots:
    """``count`` threads, started when first needed, each running one claim at a time.

    They are daemons: a handler that never returns must not keep the process from ending.
    """

    def __init__(self, count: int, run: Callable[[Held], None]) -> None:
        self._count = count
        self._run = run
        self._queue: SimpleQueue[Held | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, held: Held) -> None:
        """Run it in the next free thread. The caller knows that there is one: it counts occupied slots."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif len(self._threads) < self._count:
                thread = threading.Thread(target=self._loop, name=f"task-slot-{len(self._threads) + 1}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._queue.put(held)

    def stop(self) -> None:
        for _ in self._threads:
            self._queue.put(None)

    def join(self, timeout_seconds: float) -> bool:
        """Wait for threads whose handler has ended; True when all have."""
        for thread in self._threads:
            thread.join(timeout_seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def _loop(self) -> None:
        while (held := self._queue.get()) is not None:
            self._run(held)
            with self._lock:
                self._idle += 1
            del held
