"""The lease keeper: renews what the process holds, ends what is out of time, and says that the worker lives.

It has a thread and a connection of its own, so that neither a busy claim loop nor a handler that blocks can make a
lease run out.
"""

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import psycopg

from taskqueue import events, store, telemetry
from taskqueue.database import Connection, Database, Kept
from taskqueue.executor import timeout_error
from taskqueue.outage import Outage
from taskqueue.outcomes import Ending, Tries, failure
from taskqueue.records import Beat, Serving
from taskqueue.reports import report_lost
from taskqueue.running import Held, Phase, Running
from taskqueue.service import Service
from taskqueue.triggers import ECHO_CHANNEL

# How long a handler that was told to stop may take before it is settled without it.
_LONGEST_GRACE_SECONDS = 5.0
_BEAT_SECONDS = 5.0
# How soon a claim whose row somebody had locked is renewed, so that it is no other worker's once the lock is gone.
_LOCKED_SECONDS = 1.0


class Ears(Protocol):
    """What the keeper asks of whoever listens for notifications."""

    @property
    def state(self) -> str: ...

    def word_to_send(self) -> str | None:
        """The word that must come back as an echo, when one is to be sent now."""


@dataclass(frozen=True, kw_only=True)
class KeeperPlan:
    serving: Serving
    version: str
    outage_seconds: float
    draining: Callable[[], bool]
    tries: Callable[[Held], Tries]
    deliver: Callable[[Held, Ending], None]
    on_all_stuck: Callable[[], None]


class LeaseKeeper(Service):
    name = "leases"

    def __init__(
        self,
        plan: KeeperPlan,
        *,
        database: Database,
        running: Running,
        on_failure: Callable[[str, BaseException], None],
    ) -> None:
        super().__init__(on_failure=on_failure)
        self._plan = plan
        self._kept = Kept(database, "leases")
        self._running = running
        self._listener: Ears | None = None
        self._outage = Outage(worker_id=plan.serving.worker_id, part=self.name, limit_seconds=plan.outage_seconds)
        self._grace = min(_LONGEST_GRACE_SECONDS, plan.serving.lease_seconds / 4)
        self._next_renewal = 0.0
        self._next_beat = 0.0
        self._beaten: tuple[object, ...] = ()

    def listen_with(self, listener: Ears) -> None:
        """Report this listener's state with the beats, and send it the words it must hear back."""
        self._listener = listener

    def look(self) -> float:
        self._end_overdue()
        try:
            with self._kept as connection:
                self._renew(connection)
                self._beat(connection)
                self._ask_for_echo(connection)
            self._outage.over()
        except psycopg.Error as error:
            return self._outage.failed(error)
        return self._seconds_until_next()

    def close(self) -> None:
        try:
            with self._kept as connection:
                store.sign_off(connection, self._plan.serving.worker_id)
        except psycopg.Error:
            # The row then tells by its silence, which is what it is for.
            return
        finally:
            self._kept.close()

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for held in self._running.all():
            if now >= held.deadline and self._running.mark_overdue(held):
                held.interrupt()
            if now >= held.deadline + self._grace and held.phase is Phase.OVERDUE:
                self._abandon(held)

    def _abandon(self, held: Held) -> None:
        if not self._running.abandon(held):
            return
        ending = failure(timeout_error(held.handler), self._plan.tries(held), code="timeout", timed_out=True)
        self._plan.deliver(held, ending)
        stuck = self._running.stuck
        telemetry.emit(
            events.STUCK,
            task_id=held.claim.id,
            task_type=held.claim.task_type,
            attempt=held.claim.attempt,
            correlation_id=held.claim.correlation_id,
            worker_id=self._plan.serving.worker_id,
            stuck=stuck,
            slots=self._running.slots,
        )
        if stuck >= self._running.slots:
            self._plan.on_all_stuck()

    def _renew(self, connection: Connection) -> None:
        now = time.monotonic()
        if now < self._next_renewal:
            return
        fences = [held.fence for held in self._running.renewable()]
        renewed = store.renew(connection, fences, lease_seconds=self._plan.serving.lease_seconds) if fences else []
        for fence in set(fences) - {(row.id, row.attempt) for row in renewed}:
            self._lose(fence)
        in_seconds = self._plan.serving.lease_seconds / 3
        if not all(row.moved for row in renewed):
            in_seconds = min(in_seconds, _LOCKED_SECONDS)
        self._next_renewal = now + in_seconds

    def _lose(self, fence: tuple[str, int]) -> None:
        held = self._running.mark_lost(fence)
        if held is not None:
            held.interrupt()
            report_lost("renew", held.claim, worker_id=self._plan.serving.worker_id)

    def _beat(self, connection: Connection) -> None:
        now = time.monotonic()
        serving = self._plan.serving
        state = self._listener.state if self._listener is not None else "off"
        current = (state, self._plan.draining(), self._running.stuck)
        if now < self._next_beat and current == self._beaten:
            return
        store.beat(
            connection,
            Beat(
                id=serving.worker_id,
                host=socket.gethostname(),
                pid=os.getpid(),
                version=self._plan.version,
                draining=self._plan.draining(),
                slots=self._running.slots,
                running=self._running.held,
                stuck=self._running.stuck,
                listen_state=state,
                queues=None if serving.queues is None else list(serving.queues),
                task_types=list(serving.task_types),
            ),
        )
        self._beaten = current
        self._next_beat = now + min(_BEAT_SECONDS, serving.lease_seconds / 3)

    def _ask_for_echo(self, connection: Connection) -> None:
        word = self._listener.word_to_send() if self._listener is not None else None
        if word is not None:
            store.echo(connection, channel=ECHO_CHANNEL, word=word)

    def _seconds_until_next(self) -> float:
        now = time.monotonic()
        instants = [self._next_renewal, self._next_beat]
        for held in self._running.all():
            if held.phase is Phase.RUNNING:
                instants.append(held.deadline)
            elif held.phase is Phase.OVERDUE:
                instants.append(held.deadline + self._grace)
        # New claims may bring an earlier deadline, and the listener may want an echo.
        return min(max(min(instants) - now, 0.0), 1.0)
