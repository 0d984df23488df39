"""Tasks run in the caller's thread, over the caller's connection: in tests, in scripts, and from ``manage.py``.

The statements, the fence, the executor and the finishes are the worker's. A task is claimed when its turn has come,
with a lease as long as its handler may take, since nobody renews it here. Within a transaction of the caller nobody
else sees the claim before it is written how it ended.
"""

import os
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from django.conf import settings
from django.db import connections, router

from taskqueue import store
from taskqueue.callers_connections import CallersConnections
from taskqueue.database import Connection
from taskqueue.executor import Executor
from taskqueue.finishes import Finish, Finishes, Written
from taskqueue.handlers import Registry, registry
from taskqueue.lifecycle import Event, Refusal, Status, can_transition, move_for
from taskqueue.models import QueueControl, Task
from taskqueue.outcomes import Ending
from taskqueue.records import Claim, Room, Serving
from taskqueue.reports import report_claimed, report_crash_loop, report_refused, report_written
from taskqueue.retry import DEFAULT_MAX_RETRIES
from taskqueue.running import Held, Running

_GRACE_SECONDS = 60.0
# Another drain may hold the best ones at this very moment.
_ONE = Room(slots=1, window=100, last_chance_free=True)
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class DrainSummary:
    """What became of the attempts of a drain. ``retried`` are those that wait for another one, snoozed ones included.

    ``lost`` are claims that somebody else took over while the handler ran; what the other run did stands.
    """

    ran: int = 0
    succeeded: int = 0
    retried: int = 0
    dead: int = 0
    dead_lettered: int = 0
    lost: int = 0


@dataclass(frozen=True, kw_only=True)
class Processed:
    """What ``process`` did. ``status`` is the task's state now, None when there is no such task.

    ``ran`` is False when the task was left untouched, and ``code`` says why: ``not_found``, ``terminal_state``,
    ``invalid_transition`` (it is dead, or running elsewhere), ``not_due``, ``unregistered``, ``paused`` or ``taken``
    (somebody has its row locked).
    """

    id: str
    ran: bool
    status: str | None
    code: str | None = None


def immediate() -> bool:
    """Whether this process runs what it enqueues itself, as soon as the enqueueing transaction is committed."""
    return bool(getattr(settings, "TASKQUEUE", {}).get("MODE") == "immediate")


def drain_due(
    *,
    now: datetime | None = None,
    queues: Sequence[str] | None = None,
    limit: int | None = None,
    max_retries: int = DEFAULT_MAX_RETRIES,
    handlers: Registry = registry,
) -> DrainSummary:
    """Run every task that is due, best first, and those that they enqueue, until none is due; at most ``limit``.

    ``now`` moves what counts as due, so that a test need not wait: a retry is then due from ``now`` on, not from the
    database's clock on, and no task is tried twice at one ``now``. ``max_retries`` holds where neither task nor
    handler sets a limit. A handler's exception ends its attempt and is never raised here.
    """
    here = _Here(handlers, queues=queues, now=now, max_retries=max_retries)
    counted: Counter[str] = Counter()
    while limit is None or counted["ran"] < limit:
        claim = here.next()
        if claim is None:
            break
        counted["ran"] += 1
        counted[_column(here.run(claim))] += 1
    return DrainSummary(**counted)


def process(
    id: str,
    *,
    now: datetime | None = None,
    max_retries: int = DEFAULT_MAX_RETRIES,
    handlers: Registry = registry,
) -> Processed:
    """Run this task if it is due, else leave it untouched. ``now`` as for ``drain_due``."""
    here = _Here(handlers, queues=None, now=now, max_retries=max_retries)
    claim = here.claim(id)
    if claim is None:
        return _why_not(id, here)
    here.run(claim)
    return Processed(id=id, ran=True, status=_status(id))


class _Here:
    """This thread as a worker with one slot."""

    def __init__(
        self, handlers: Registry, *, queues: Sequence[str] | None, now: datetime | None, max_retries: int
    ) -> None:
        self._alias = router.db_for_write(Task)
        self._registry = handlers
        self._now = now
        self._running = Running(1)
        self._connections = CallersConnections()
        self._endings: list[Ending] = []
        self._executor = Executor(
            running=self._running,
            connections=self._connections,
            default_max_retries=max_retries,
            deliver=lambda held, ending: self._endings.append(ending),
            freed=lambda: None,
        )
        self._serving = Serving(
            task_types=tuple(sorted(handlers.handlers)),
            queues=None if queues is None else tuple(queues),
            worker_id=f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
            lease_seconds=_GRACE_SECONDS,
        )

    def next(self) -> Claim | None:
        """The best of what is due, or a task whose worker was lost."""
        with self._connection() as connection:
            room = replace(_ONE, now=self.instant(connection))
            claims = store.claim(connection, self._serving, room)
            if not claims:
                for loop in store.discard_crash_loops(connection, self._serving.worker_id):
                    report_crash_loop(loop)
                claims = store.reclaim(connection, self._serving, room)
            return claims[0] if claims else None

    def claim(self, id: str) -> Claim | None:
        with self._connection() as connection:
            return store.claim_one(connection, self._serving, id, now=self.instant(connection))

    def instant(self, connection: Connection) -> datetime:
        """What counts as now. Not ``now()``: in a transaction it stands still, and what is due since is due."""
        if self._now is not None:
            return self._now
        row = connection.execute("SELECT clock_timestamp()").fetchone()
        return cast(datetime, row[0] if row else None)

    def why_not(self, task: Task) -> str:
        with self._connection() as connection:
            now = self.instant(connection)
        if task.task_type not in self._serving.task_types:
            return "unregistered"
        if task.embargo_until > now:
            return "not_due"
        paused = QueueControl.objects.using(self._alias).filter(kind="queue", name=task.queue) | (
            QueueControl.objects.using(self._alias).filter(kind="task_type", name=task.task_type)
        )
        return "paused" if paused.exists() else "taken"

    def run(self, claim: Claim) -> Written:
        handler = self._registry.handlers[claim.task_type]
        with self._connection() as connection:
            store.renew(connection, [(claim.id, claim.attempt)], lease_seconds=handler.timeout_seconds + _GRACE_SECONDS)
        now = time.monotonic()
        held = Held(claim=claim, handler=handler, claimed_at=now, deadline=now + handler.timeout_seconds)
        report_claimed(claim, worker_id=self._serving.worker_id)
        self._running.add(held)
        self._attempt(held)
        ending = self._timed(self._endings.pop())
        interrupted = ending.error_class == "builtins.KeyboardInterrupt"
        if interrupted:
            # Somebody wants this program to end, which is not the task's failure.
            ending = Ending(event=Event.RELEASE)
        written = self._write(Finish(held=held, ending=ending, tries=self._executor.tries))
        self._running.remove(held)
        report_written(written, worker_id=self._serving.worker_id)
        if interrupted:
            raise KeyboardInterrupt
        return written

    def _attempt(self, held: Held) -> None:
        """Run the handler, and tell it when its time is up; a handler that never returns is waited for."""

        def time_is_up() -> None:
            if self._running.mark_overdue(held):
                held.interrupt()

        clock = threading.Timer(held.handler.timeout_seconds, time_is_up)
        clock.daemon = True
        clock.start()
        try:
            self._connections.before()
            self._executor(held)
        finally:
            clock.cancel()
            clock.join()

    def _timed(self, ending: Ending) -> Ending:
        """With a ``now`` of the caller, the wait of a task that goes back to pending begins there."""
        if self._now is None or move_for(ending.event).target is not Status.PENDING:
            return ending
        until = ending.embargo_until or self._now + timedelta(seconds=ending.delay_seconds)
        return replace(ending, embargo_until=max(until, self._now + _MOMENT))

    def _write(self, finish: Finish) -> Written:
        """Raises the server's error when it refuses to write how the attempt ended; the lease then runs out."""
        finishes = Finishes()
        finishes.put(finish)
        with self._connection() as connection:
            written = finishes.write(connection)
            for refused, error in finishes.take_refused():
                report_refused(refused, error, worker_id=self._serving.worker_id)
                raise error
        return written[0]

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """The caller's own connection, as the queue's statements take it, with errors as Django's."""
        django: Any = connections[self._alias]
        django.ensure_connection()
        with django.wrap_database_errors:
            yield django.connection


def _column(written: Written) -> str:
    if not written.kept:
        return "lost"
    if written.superseded:
        return "dead_lettered"
    return _COLUMNS[written.finish.ending.event]


_COLUMNS = {
    Event.COMPLETE: "succeeded",
    Event.FAIL: "retried",
    Event.SNOOZE: "retried",
    Event.EXHAUST: "dead",
    Event.DISCARD: "dead_lettered",
}


def _why_not(id: str, here: _Here) -> Processed:
    task = Task.objects.using(router.db_for_write(Task)).filter(id=id).first()
    if task is None:
        return Processed(id=id, ran=False, status=None, code=Refusal.NOT_FOUND.value)
    decision = can_transition(task.status, Event.CLAIM)
    code = here.why_not(task) if decision.allowed else decision.refusal
    return Processed(id=id, ran=False, status=task.status, code=str(code))


def _status(id: str) -> str | None:
    return Task.objects.using(router.db_for_write(Task)).filter(id=id).values_list("status", flat=True).first()
