"""Writing the endings of attempts, all that wait in one statement, exactly once and whatever breaks in between."""

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import psycopg
from psycopg.pq import TransactionStatus

from taskqueue import store
from taskqueue.database import Connection
from taskqueue.lifecycle import Event, move_for
from taskqueue.models import Outcome
from taskqueue.outcomes import Ending, Tries, failure
from taskqueue.records import Completion, Fence, Settlement
from taskqueue.running import Held

_OUTCOMES = {
    Event.FAIL: Outcome.FAILED,
    Event.EXHAUST: Outcome.FAILED,
    Event.SNOOZE: Outcome.SNOOZED,
    Event.RELEASE: Outcome.RELEASED,
    Event.DISCARD: Outcome.DISCARDED,
}

# A lock that is waited for stops everybody else's finishes for the server's lock_timeout, so this is not done often.
_ASIDE_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Finish:
    """``tries`` says what follows when the ending itself cannot be stored."""

    held: Held
    ending: Ending
    tries: Callable[[Held], Tries]


@dataclass(frozen=True, kw_only=True)
class Written:
    """``kept`` is False when the claim had been lost: nothing was changed."""

    finish: Finish
    kept: bool
    superseded: bool = False


class Finishes:
    """Endings on their way to the table. ``put`` from any thread, ``write`` from the one that owns the connection.

    A finish leaves only when the database has answered. When a connection breaks in the middle, the next call first
    asks which of the finishes had been committed. One that the server refuses to write alone is set aside and tried
    again now and then, so that it keeps nobody else's from the table; its claim stays held.
    """

    def __init__(self) -> None:
        self._aside: list[tuple[float, Finish]] = []
        self._refused: list[tuple[Finish, psycopg.Error]] = []
        self._waiting: deque[Finish] = deque()
        self._unsure: list[Finish] = []
        self._written: list[Written] = []
        self._uncertain = False

    def put(self, finish: Finish) -> None:
        self._waiting.append(finish)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._unsure)

    def completions(self, most: int) -> list[Finish]:
        """What waits, when it is nothing but successes and no earlier write is in doubt; else nothing.

        At most so many. They are in doubt from now on, until ``confirm`` or ``write`` finds out what became of them.
        """
        if self._unsure or any(finish.ending.event is not Event.COMPLETE for finish in list(self._waiting)):
            return []
        while self._waiting and len(self._unsure) < most and self._waiting[0].ending.event is Event.COMPLETE:
            self._unsure.append(self._waiting.popleft())
        self._uncertain = bool(self._unsure)
        return list(self._unsure)

    def confirm(self, kept: Collection[Fence]) -> list[Written]:
        """The batch of ``completions`` was written, and these claims were still held."""
        batch, self._unsure = self._unsure, []
        self._uncertain = False
        return [Written(finish=finish, kept=finish.held.fence in kept) for finish in batch]

    def write(self, connection: Connection) -> list[Written]:
        """Raises the driver's error when the database is away; everything unwritten stays here."""
        self._take_up_again()
        while self._waiting:
            self._unsure.append(self._waiting.popleft())
        if not self._unsure:
            return []
        if self._uncertain:
            ours = store.own_finishes(connection, [finish.held.fence for finish in self._unsure])
            self._written += [Written(finish=f, kept=True) for f in self._unsure if f.held.fence in ours]
            self._unsure = [f for f in self._unsure if f.held.fence not in ours]
        self._uncertain = True
        for batch in (
            [f for f in self._unsure if f.ending.event is Event.COMPLETE],
            [f for f in self._unsure if f.ending.event is not Event.COMPLETE],
        ):
            if batch:
                self._written += self._write(connection, batch)
                done = {id(finish) for finish in batch}
                self._unsure = [f for f in self._unsure if id(f) not in done]
        self._uncertain = False
        written, self._written = self._written, []
        return written

    def take_refused(self) -> list[tuple[Finish, psycopg.Error]]:
        """Those set aside since the last call, each with the server's reason."""
        refused, self._refused = self._refused, []
        return refused

    def _take_up_again(self) -> None:
        now = time.monotonic()
        self._waiting.extend(finish for due, finish in self._aside if due <= now)
        self._aside = [(due, finish) for due, finish in self._aside if due > now]

    def _write(self, connection: Connection, batch: Sequence[Finish]) -> list[Written]:
        try:
            return _write_together(connection, batch)
        except psycopg.Error as error:
            if not is_about_a_row(error):
                raise
            if len(batch) > 1:
                return [written for finish in batch for written in self._write(connection, [finish])]
            return self._write_otherwise(connection, batch[0], error)

    def _write_otherwise(self, connection: Connection, finish: Finish, error: psycopg.Error) -> list[Written]:
        try:
            match error:
                case psycopg.errors.UniqueViolation():
                    # A pending task took the dedupe key between the statement's look and its write: now it is seen.
                    return _write_together(connection, [finish])
                case psycopg.errors.LockNotAvailable():
                    refusal: psycopg.Error = error
                case _:
                    return _write_together(connection, [_unstorable(finish, error)])
        except psycopg.Error as again:
            if not is_about_a_row(again):
                raise
            refusal = again
        self._aside.append((time.monotonic() + _ASIDE_SECONDS, finish))
        self._refused.append((finish, refusal))
        return []


def completion(finish: Finish) -> Completion:
    claim = finish.held.claim
    return Completion(id=claim.id, attempt=claim.attempt, result=finish.ending.result)


def _write_together(connection: Connection, batch: Sequence[Finish]) -> list[Written]:
    if connection.info.transaction_status is TransactionStatus.IDLE:
        return _write_at_once(connection, batch)
    # Within a caller's transaction a refused statement must leave it usable for the next.
    with connection.transaction():
        return _write_at_once(connection, batch)


def _write_at_once(connection: Connection, batch: Sequence[Finish]) -> list[Written]:
    if batch[0].ending.event is Event.COMPLETE:
        kept = store.complete(connection, [completion(f) for f in batch])
        return [Written(finish=f, kept=f.held.fence in kept) for f in batch]
    settled = {(row.id, row.attempt): row for row in store.settle(connection, [_settlement(f) for f in batch])}
    return [
        Written(
            finish=f,
            kept=f.held.fence in settled,
            superseded=f.held.fence in settled and settled[f.held.fence].superseded,
        )
        for f in batch
    ]


def _settlement(finish: Finish) -> Settlement:
    ending, claim = finish.ending, finish.held.claim
    return Settlement(
        id=claim.id,
        attempt=claim.attempt,
        status=move_for(ending.event).target,
        outcome=Outcome.TIMEOUT if ending.timed_out else _OUTCOMES[ending.event],
        uses_retry=ending.event is Event.FAIL,
        delay_seconds=ending.delay_seconds,
        embargo_until=ending.embargo_until,
        message=ending.message,
        error_code=ending.error_code,
        error_class=ending.error_class,
        traceback=ending.traceback,
    )


def is_about_a_row(error: psycopg.Error) -> bool:
    """No other row is to blame: data the server refuses (classes 22, 23, 44) or that is beyond its limits (54), what a
    trigger of somebody else's raises (P0), or a lock that somebody holds on the row.
    """
    return (error.sqlstate or "")[:2] in ("22", "23", "44", "54", "P0") or isinstance(
        error, psycopg.errors.LockNotAvailable
    )


def _unstorable(finish: Finish, error: psycopg.Error) -> Finish:
    """A failure that can be stored, in place of an ending that cannot."""
    code = "unserialisable_result" if finish.ending.event is Event.COMPLETE else "unstorable"
    return Finish(held=finish.held, ending=failure(error, finish.tries(finish.held), code=code), tries=finish.tries)
