"""The pool of threads in which handlers run."""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from taskqueue.running import Held


class Slots:
    """``count`` threads, started when first needed, each running one claim at a time.

    Each calls ``leave`` when it ends. They are daemons: a handler that never returns must not keep the process from
    ending.

    Threads wake each other: one that takes a claim and leaves others behind wakes the next thread before it runs its
    own. Handlers that wait are side by side at once, and those that end at once are run by the few threads that are
    awake already; waking one for each would cost several times what a short handler does.
    """

    def __init__(self, count: int, run: Callable[[Held], None], *, leave: Callable[[], None] = lambda: None) -> None:
        self._count = count
        self._run = run
        self._leave = leave
        self._claims: deque[Held] = deque()
        self._turns: SimpleQueue[None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._idle = 0
        self._waking = False
        self._stopped = False

    def submit(self, held: Held) -> None:
        """Run it in the next free thread. The caller knows that there is one: it counts occupied slots."""
        with self._lock:
            self._claims.append(held)
            self._wake_one()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for _ in self._threads:
                self._turns.put(None)

    def join(self, timeout_seconds: float) -> bool:
        """Wait for threads whose handler has ended; True when all have."""
        for thread in self._threads:
            thread.join(timeout_seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def _wake_one(self) -> None:
        """Under the lock: see to it that a thread comes for what waits, unless one is on its way already."""
        if self._waking or not self._claims:
            return
        if self._idle > 0:
            self._waking = True
            self._turns.put(None)
        elif len(self._threads) < self._count:
            self._waking = True
            thread = threading.Thread(target=self._loop, name=f"task-slot-{len(self._threads) + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _loop(self) -> None:
        try:
            self._take_turns()
        finally:
            self._leave()

    def _take_turns(self) -> None:
        arrived = True
        while True:
            with self._lock:
                if arrived:
                    self._waking = False
                held = self._claims.popleft() if self._claims else None
                if held is None:
                    if self._stopped:
                        return
                    self._idle += 1
                else:
                    self._wake_one()
            if held is None:
                self._turns.get()
                with self._lock:
                    self._idle -= 1
                arrived = True
                continue
            arrived = False
            self._run(held)
            del held
