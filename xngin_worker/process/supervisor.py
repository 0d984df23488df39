"""Starts the services, watches them, and stops them in reverse; decides the exit code."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from taskqueue import events, telemetry
from taskqueue.outage import NotMigrated
from taskqueue.service import Service
from taskqueue.text import message_of
from xngin_worker.process.signals import SignalPipe
from xngin_worker.process.starter import Starter

_LOOK_AT_STARTER_SECONDS = 0.5
_RELEASE_SECONDS = 5.0
_JOIN_SECONDS = 2.0


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    CONFIGURATION = 2
    DRAIN_TIMEOUT = 3


@dataclass(frozen=True, kw_only=True)
class Half:
    """A kind of work that can be drained: no new work, wait for what runs, give the rest back.

    ``vital`` are the services without which what runs cannot be seen to its end.
    """

    vital: frozenset[str]
    drain: Callable[[], None]
    release: Callable[[], None]
    settled: Callable[[], bool]
    held: Callable[[], int]
    released: Callable[[], int]


class Supervisor:
    """Runs in the main thread. ``fail``, ``end`` and ``progress`` may be called from any other."""

    def __init__(self, *, worker_id: str, drain_timeout_seconds: float, pipe: SignalPipe, starter: Starter) -> None:
        self._worker_id = worker_id
        self._starter = starter
        self._drain_timeout = drain_timeout_seconds
        self._pipe = pipe
        self._lock = threading.Lock()
        self._code = ExitCode.DONE
        self._reason: str | None = None
        self._impatient = False
        self._failed: set[str] = set()

    @property
    def draining(self) -> bool:
        return self._reason is not None

    def fail(self, part: str, error: BaseException) -> None:
        """A service ended by an error: drain the rest, exit 1, or 2 when it is for a person to mend."""
        telemetry.emit(events.SERVICE_FAILED, worker_id=self._worker_id, part=part, reason=message_of(error))
        self._failed.add(part)
        self._ask(f"{part} failed", ExitCode.CONFIGURATION if isinstance(error, NotMigrated) else ExitCode.FAILED)

    def end(self, reason: str, code: ExitCode = ExitCode.DONE) -> None:
        """An orderly end was asked for."""
        self._ask(reason, code)

    def progress(self) -> None:
        """Something drained; look again."""
        self._pipe.wake()

    def run(self, services: Sequence[Service], halves: Sequence[Half]) -> ExitCode:
        """Start all, work until told to end, drain, stop all. The order of ``services`` is that of starting."""
        # A signal that came while the process was starting: nothing has to be started any more.
        self._hear(0.0)
        if self._reason is None:
            for service in services:
                service.start()
        while self._reason is None:
            self._hear(_LOOK_AT_STARTER_SECONDS if self._starter.shell else None)
            if self._starter.gone:
                self._ask("the shell that started it has ended", ExitCode.DONE)
        for half in halves:
            half.drain()
        running = sum(half.held() for half in halves)
        telemetry.emit(events.WORKER_DRAINING, worker_id=self._worker_id, reason=self._reason, running=running)
        code = self._drain(halves)
        for service in reversed(services):
            service.stop()
        for service in reversed(services):
            service.join(_JOIN_SECONDS)
        telemetry.emit(
            events.WORKER_STOPPED,
            worker_id=self._worker_id,
            exit_code=int(code),
            reason=self._reason,
            released=sum(half.released() for half in halves),
        )
        return code

    def _ask(self, reason: str, code: ExitCode) -> None:
        with self._lock:
            self._code = max(self._code, code)
            if self._reason is None:
                self._reason = reason
        self._pipe.wake()

    def _hear(self, timeout_seconds: float | None) -> None:
        for number in self._pipe.wait(timeout_seconds):
            # A second signal that came in the same read counts as the second one of the drain.
            if self._reason is None:
                self._reason = f"signal {number}"
            else:
                self._impatient = True

    def _drain(self, halves: Sequence[Half]) -> ExitCode:
        """Wait for what runs. A half whose vital service has failed gives back at once; the other may go on."""
        deadline = time.monotonic() + self._drain_timeout
        released: list[Half] = []
        while not self._impatient:
            for half in halves:
                if half not in released and half.vital & self._failed and not half.settled():
                    released.append(half)
                    half.release()
            left = deadline - time.monotonic()
            if left <= 0 or all(half.settled() or half in released for half in halves):
                break
            for _ in self._pipe.wait(left):
                self._impatient = True
        if all(half.settled() for half in halves):
            return self._code
        for half in halves:
            if not half.settled():
                half.release()
        deadline = time.monotonic() + _RELEASE_SECONDS
        while not all(half.settled() for half in halves) and (left := deadline - time.monotonic()) > 0:
            for _ in self._pipe.wait(left):
                pass
        return max(self._code, ExitCode.DRAIN_TIMEOUT) if self._code is ExitCode.DONE else self._code
