"""The loop that claims tasks, hands them to slots, and writes down how they ended."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg

from taskqueue import store
from taskqueue.contention import Contention
from taskqueue.database import Connection, Database, Kept
from taskqueue.executor import Executor
from taskqueue.finishes import Finish, Finishes, Written, completion, is_about_a_row
from taskqueue.handler_connections import HandlerConnections
from taskqueue.handlers import Registry
from taskqueue.lifecycle import Event, Status
from taskqueue.models import Outcome
from taskqueue.outage import Outage
from taskqueue.outcomes import Ending, Tries
from taskqueue.records import Claim, Room, Serving, Settlement
from taskqueue.reports import report_claimed, report_crash_loop, report_refused, report_written
from taskqueue.running import Held, Phase, Running
from taskqueue.service import Service
from taskqueue.slots import Slots


@dataclass(frozen=True, kw_only=True)
class WorkerPlan:
    """What the loop was told. ``max_tasks`` of 0 means no limit; ``on_end(reason)`` asks for an orderly end.

    ``on_idle`` is called by each claim that finds nothing due while nothing is held here, ``count`` for each ending.
    """

    serving: Serving
    poll_seconds: float
    default_max_retries: int
    outage_seconds: float
    max_tasks: int
    on_end: Callable[[str], None]
    on_idle: Callable[[], None] | None = None
    count: Callable[[Written], None] | None = None


class TaskWorker(Service):
    """Claims while it may, finishes always. ``drain`` ends claiming, ``release`` gives back what still runs."""

    name = "tasks"

    def __init__(
        self,
        plan: WorkerPlan,
        *,
        database: Database,
        registry: Registry,
        running: Running,
        on_failure: Callable[[str, BaseException], None],
        on_drained: Callable[[], None],
    ) -> None:
        super().__init__(on_failure=on_failure)
        self._plan = plan
        self._kept = Kept(database, "tasks")
        self._registry = registry
        self._running = running
        self._on_drained = on_drained
        self._finishes = Finishes()
        self._outage = Outage(worker_id=plan.serving.worker_id, part=self.name, limit_seconds=plan.outage_seconds)
        self._executor = Executor(
            running=running,
            connections=HandlerConnections(pooled=database.pgbouncer),
            default_max_retries=plan.default_max_retries,
            deliver=self.deliver,
            freed=self.wake,
        )
        self._slots = Slots(running.slots, self._executor, leave=self._executor.connections.close)
        self._draining = False
        self._releasing = False
        self._told_end = False
        self._told_drained = False
        self._claimed = 0
        self._finished = 0
        self._looked_at: float | None = None
        self._notified = False
        self._in_doubt = False
        self._next_claim = 0.0
        self._next_reclaim = 0.0
        self._contention = Contention(plan.poll_seconds)
        self._half = max(running.slots // 2, 1)
        self.released = 0

    def deliver(self, held: Held, ending: Ending) -> None:
        """Take the ending of an attempt; called from slots and from the lease keeper."""
        self._finishes.put(Finish(held=held, ending=ending, tries=self.tries))
        self._woken.set()

    def tries(self, held: Held) -> Tries:
        return self._executor.tries(held)

    def work_may_be_due(self) -> None:
        """A notification came: look now instead of at the next poll."""
        # A flag of its own: the loop's times are read and written again by the loop's thread only.
        self._notified = True
        self.wake()

    def drain(self) -> None:
        self._draining = True
        self.wake()

    def release(self) -> None:
        """Give back everything that still runs, without waiting for it."""
        self._draining = True
        self._releasing = True
        self.wake()

    @property
    def serving_now(self) -> bool:
        """The loop has been in the database lately and may claim."""
        return self._looked_at is not None and not self._outage.lasting and not self._draining

    @property
    def moves(self) -> int:
        """Grows with each task that is taken or settled."""
        return self._claimed + self._finished

    @property
    def outlasted(self) -> bool:
        """The loop has not turned for far longer than it ever waits: the process is to be replaced."""
        longest = self._plan.poll_seconds + 60.0
        return self._looked_at is not None and time.monotonic() - self._looked_at > longest

    @property
    def settled(self) -> bool:
        return self._running.held == 0 and not len(self._finishes)

    @property
    def drained(self) -> bool:
        """Nothing is held, and nothing will be: the loop has seen that it drains, or has ended.

        ``settled`` is not enough: a claim that was under way when the drain began is not held yet.
        """
        return self.settled and (self._told_drained or self.join(0.0))

    def join_slots(self, timeout_seconds: float) -> bool:
        """Wait, once the loop has ended, for the threads of handlers that have; True when all have."""
        return self._slots.join(timeout_seconds)

    def look(self) -> float:
        self._looked_at = time.monotonic()
        if self._notified:
            self._notified = False
            self._next_claim = 0.0
        if self._releasing:
            self._release_held()
        try:
            with self._kept as connection:
                if self._draining or not self._write_and_claim(connection):
                    self._write(connection)
                wait = 0.0 if self._draining else self._take(connection)
                if self._draining and self._in_doubt:
                    self._release_orphans(connection)
            self._in_doubt = False
            self._outage.over()
        except psycopg.Error as error:
            self._in_doubt = True
            # What the failed look had put off is due again as soon as the database answers.
            self._next_claim = self._next_reclaim = 0.0
            wait = self._outage.failed(error)
            if self._draining:
                self._tell_when_drained()
            return wait
        if self._draining:
            return self._wait_for_the_rest()
        return wait

    def close(self) -> None:
        self._slots.stop()
        if not self._told_drained:
            # Ended by a fault of its own: its claims shall not run out and be counted as losses.
            with suppress(psycopg.Error), self._kept as connection:
                self._release_held()
                self._write(connection)
                self._release_orphans(connection)
        self._kept.close()

    def _write_and_claim(self, connection: Connection) -> bool:
        """The common case under load in one transaction: what succeeded is written, and its slots are filled again.

        Half of the slots at a time: while the server works on one half, the handlers of the other half run.
        False when it is not the common case, or PostgreSQL refuses one of the results: ``_write`` sorts that out.
        """
        free, now = self._room, time.monotonic()
        if free <= 0 or now < self._next_claim or now >= self._next_reclaim:
            return False
        completions = [completion(finish) for finish in self._finishes.completions(self._half)]
        if not completions:
            return False
        # A slot whose finish still waits is filled by the statement that writes it.
        free = max(self._room - (len(self._finishes) - len(completions)), 0)
        self._next_claim = now + self._plan.poll_seconds
        try:
            kept, claims = store.complete_and_claim(connection, completions, self._plan.serving, self._claim_room(free))
        except psycopg.Error as error:
            if not is_about_a_row(error):
                raise
            self._next_claim = 0.0
            return False
        self._note(self._finishes.confirm(kept))
        self._taken(connection, claims, free)
        return True

    def _write(self, connection: Connection) -> None:
        self._note(self._finishes.write(connection))
        for finish, error in self._finishes.take_refused():
            report_refused(finish, error, worker_id=self._plan.serving.worker_id)

    def _note(self, writings: Sequence[Written]) -> None:
        for written in writings:
            held = written.finish.held
            self._running.remove(held)
            self._finished += 1
            self.released += written.finish.ending.event is Event.RELEASE and written.kept
            self._plan_next_try(written)
            if held.claim.lost_count:
                # The next of those that run with no other lost task beside them may start.
                self._next_claim = self._next_reclaim = 0.0
            if self._plan.count is not None:
                self._plan.count(written)
            report_written(written, worker_id=self._plan.serving.worker_id)
        if self._plan.on_idle is not None and self.settled:
            self._next_claim = 0.0

    def _plan_next_try(self, written: Written) -> None:
        """A task that goes back to pending may be due before the next poll."""
        ending = written.finish.ending
        if ending.event is Event.COMPLETE:
            return
        delay = ending.delay_seconds
        if ending.embargo_until is not None:
            delay = (ending.embargo_until - datetime.now(UTC)).total_seconds()
        self._next_claim = min(self._next_claim, time.monotonic() + max(delay, 0.0))

    def _take(self, connection: Connection) -> float:
        """Claim what is due for the free slots; seconds until the next look."""
        now = time.monotonic()
        if now >= self._next_reclaim:
            self._reclaim(connection)
            self._next_reclaim = now + min(self._plan.poll_seconds, self._plan.serving.lease_seconds)
        free = self._room
        if free > 0 and now >= self._next_claim and not len(self._finishes):
            self._next_claim = now + self._plan.poll_seconds
            self._taken(connection, store.claim(connection, self._plan.serving, self._claim_room(free)), free)
        self._end_if_told()
        if len(self._finishes):
            return 0.0
        if self._running.free <= 0:
            # Every slot works; a finish wakes us. Leases of lost workers can wait until there is room.
            return self._plan.poll_seconds
        return max(min(self._next_claim, self._next_reclaim) - time.monotonic(), 0.0)

    def _claim_room(self, free: int) -> Room:
        return Room(
            slots=free,
            window=self._contention.crowd * free,
            last_chance_free=self._running.last_chance_free,
            suspects_free=self._running.suspects_free,
        )

    def _taken(self, connection: Connection, claims: list[Claim], free: int) -> None:
        self._dispatch(claims)
        if len(claims) < free:
            self._plan_next_claim(connection, found=bool(claims))
        else:
            self._next_claim = 0.0

    def _plan_next_claim(self, connection: Connection, *, found: bool) -> None:
        due = store.next_due_seconds(connection, self._plan.serving)
        if due is not None and due <= 0:
            due = self._contention.met(found=found)
        else:
            self._contention.over()
        if due is not None:
            self._next_claim = min(self._next_claim, time.monotonic() + due)
        if self._plan.on_idle is not None and self.settled and not found and (due is None or due > 0):
            self._plan.on_idle()

    def _reclaim(self, connection: Connection) -> None:
        self._release_orphans(connection)
        for loop in store.discard_crash_loops(connection, self._plan.serving.worker_id):
            report_crash_loop(loop)
        free = self._room
        if free > 0:
            self._dispatch(store.reclaim(connection, self._plan.serving, self._claim_room(free)))

    def _release_orphans(self, connection: Connection) -> None:
        """Give back claims that were committed while the connection broke, so that we never heard of them."""
        known = {held.fence for held in self._running.all()}
        orphans = [fence for fence in store.held_by(connection, self._plan.serving.worker_id) if fence not in known]
        if orphans:
            store.settle(
                connection,
                [
                    Settlement(id=id, attempt=attempt, status=Status.PENDING, outcome=Outcome.RELEASED)
                    for id, attempt in orphans
                ],
            )

    def _dispatch(self, claims: list[Claim]) -> None:
        now = time.monotonic()
        for claim in claims:
            handler = self._registry.handlers[claim.task_type]
            held = Held(claim=claim, handler=handler, claimed_at=now, deadline=now + handler.timeout_seconds)
            self._running.add(held)
            self._claimed += 1
            report_claimed(claim, worker_id=self._plan.serving.worker_id)
            self._slots.submit(held)

    def _release_held(self) -> None:
        for held in self._running.all():
            if held.phase in (Phase.ENDED, Phase.ABANDONED):
                continue
            held.interrupt()
            if self._running.give_back(held):
                self.deliver(held, Ending(event=Event.RELEASE, message=None))

    def _wait_for_the_rest(self) -> float:
        self._tell_when_drained()
        return 0.0 if len(self._finishes) else self._plan.poll_seconds

    def _tell_when_drained(self) -> None:
        if self.settled and not self._told_drained:
            self._told_drained = True
            self._on_drained()

    @property
    def _room(self) -> int:
        """How many more tasks may be taken now."""
        free = self._running.free
        return min(free, self._plan.max_tasks - self._claimed) if self._plan.max_tasks else free

    def _end_if_told(self) -> None:
        if self._plan.max_tasks and self._claimed >= self._plan.max_tasks:
            self._end(f"{self._claimed} tasks taken (--max-tasks)")

    def _end(self, reason: str) -> None:
        if not self._told_end:
            self._told_end = True
            self._plan.on_end(reason)
