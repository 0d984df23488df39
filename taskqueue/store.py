"""The queue's statements as functions: rows in, rows out. Every move of a worker goes through here.

The functions take one of the queue's own connections (autocommit), each call is one transaction, and a move that the
fence refuses is simply missing from what comes back.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, LiteralString

from psycopg.rows import kwargs_row

from taskqueue.database import Connection
from taskqueue.records import (
    LAST_CHANCE,
    MAX_LOSSES,
    Beat,
    Claim,
    Completion,
    CrashLoop,
    Fence,
    OldTransaction,
    Renewed,
    Room,
    Serving,
    Settled,
    Settlement,
    SpanTotals,
    WaitingType,
)
from taskqueue.statements import statement

# Whoever waits for the locks of several tasks takes them in the order of the primary key; else two of us deadlock.
_KEY = attrgetter("id")


def oldest_transaction(connection: Connection, *, older_than_seconds: float) -> OldTransaction | None:
    rows = _rows(connection, "oldest_transaction", OldTransaction, {"seconds": older_than_seconds})
    return rows[0] if rows else None


def claim(connection: Connection, serving: Serving, room: Room) -> list[Claim]:
    return _best_first(_rows(connection, "claim", Claim, {**serving.parameters(), **room.parameters()}))


def claim_one(connection: Connection, serving: Serving, id: str, *, now: datetime | None) -> Claim | None:
    """Claim this task under the guards of ``claim``; None when they refuse it."""
    rows = _rows(connection, "claim_one", Claim, {**serving.parameters(), "id": id, "now": now})
    return rows[0] if rows else None


def complete_and_claim(
    connection: Connection, completions: Sequence[Completion], serving: Serving, room: Room
) -> tuple[set[Fence], list[Claim]]:
    """``complete`` and ``claim`` in one round trip and one commit: both happen or neither does."""
    with connection.pipeline():
        done = connection.execute(statement("complete"), _completed(completions))
        claimed = connection.cursor(row_factory=kwargs_row(Claim))
        claimed.execute(statement("claim"), {**serving.parameters(), **room.parameters()})
    return set(done.fetchall()), _best_first(claimed.fetchall())


def _best_first(claims: list[Claim]) -> list[Claim]:
    """The statement takes the best, and returns them in the order of their keys."""
    return sorted(claims, key=lambda claim: (-claim.priority, -claim.waited_seconds))


def reclaim(connection: Connection, serving: Serving, room: Room) -> list[Claim]:
    message = "its worker was lost while it ran: it was killed, ran out of memory, hung or lost the database"
    return _rows(connection, "reclaim", Claim, {**serving.parameters(), **room.parameters(), "message": message})


def held_by(connection: Connection, worker_id: str) -> list[Fence]:
    """The fences of all claims that the table says this worker holds."""
    return list(connection.execute(statement("held_by"), {"worker_id": worker_id}).fetchall())


def discard_crash_loops(connection: Connection, worker_id: str) -> list[CrashLoop]:
    message = (
        f"its worker was lost {MAX_LOSSES} times while it ran (killed, out of memory, or a crash in native code), the "
        "last time with no other suspect beside it; it is set aside so that it cannot take more workers down. "
        "Mend the handler, then resubmit it"
    )
    return _rows(
        connection,
        "discard_crash_loops",
        CrashLoop,
        {
            "worker_id": worker_id,
            "last_chance": LAST_CHANCE,
            "lost_message": "its worker was lost while it ran",
            "message": message,
        },
    )


def renew(connection: Connection, held: Sequence[Fence], *, lease_seconds: float) -> list[Renewed]:
    """Move the leases on, without waiting for locks; those that do not come back are no longer ours."""
    return _rows(connection, "renew", Renewed, {**_fences(held), "lease_seconds": lease_seconds})


def complete(connection: Connection, completions: Sequence[Completion]) -> set[Fence]:
    """The claims that are now a success; the others were lost before."""
    return set(connection.execute(statement("complete"), _completed(completions)).fetchall())


def settle(connection: Connection, settlements: Sequence[Settlement]) -> list[Settled]:
    """What became of the attempts that were still held. Raises ``UniqueViolation`` when a dedupe key was just taken."""
    settlements = sorted(settlements, key=_KEY)
    parameters = {
        "ids": [end.id for end in settlements],
        "attempts": [end.attempt for end in settlements],
        "statuses": [end.status.value for end in settlements],
        "retries_used": [int(end.uses_retry) for end in settlements],
        "delays": [end.delay_seconds for end in settlements],
        "embargoes": [end.embargo_until for end in settlements],
        "messages": [end.message for end in settlements],
        "error_codes": [end.error_code for end in settlements],
        "error_classes": [end.error_class for end in settlements],
        "tracebacks": [end.traceback for end in settlements],
        "outcomes": [end.outcome.value for end in settlements],
    }
    return _rows(connection, "settle", Settled, parameters)


def own_finishes(connection: Connection, held: Sequence[Fence]) -> set[Fence]:
    """The claims whose finish reached the table although its answer did not reach us."""
    return set(connection.execute(statement("own_finishes"), _fences(held)).fetchall())


def next_due_seconds(connection: Connection, serving: Serving) -> float | None:
    """Seconds until a task is due that could be claimed here (0 or less: one is due now); None when there is none."""
    row = connection.execute(statement("next_due"), serving.parameters()).fetchone()
    return None if row is None or row[0] is None else float(row[0])


def unhandled_types(
    connection: Connection, task_types: Collection[str], *, patience_seconds: float
) -> list[WaitingType]:
    parameters = {"task_types": list(task_types), "patience_seconds": patience_seconds}
    return _rows(connection, "unhandled_types", WaitingType, parameters)


def beat(connection: Connection, beat: Beat) -> None:
    connection.execute(statement("beat"), {name: getattr(beat, name) for name in Beat.__slots__})


def sign_off(connection: Connection, worker_id: str) -> None:
    connection.execute(statement("sign_off"), {"id": worker_id})


def forget_workers(connection: Connection) -> None:
    connection.execute(statement("forget_workers"))


def epoch(connection: Connection) -> float:
    """Seconds since 1970 by the database's clock."""
    ((seconds,),) = connection.execute(statement("epoch")).fetchall()
    return float(seconds)


def count_minutes(connection: Connection, worker_id: str, totals: Sequence[SpanTotals]) -> None:
    ordered = sorted(totals, key=attrgetter("span", "begins_at", "task_type", "queue"))
    parameters: dict[str, Any] = {"worker_id": worker_id}
    for column, name in (("spans", "span"), ("task_types", "task_type"), ("queues", "queue")):
        parameters[column] = [getattr(row, name) for row in ordered]
    for name in ("begins_at", "succeeded", "retried", "snoozed", "dead", "dead_lettered", "waited_ms", "ran_ms"):
        parameters[name] = [getattr(row, name) for row in ordered]
    for name in ("waits", "runs"):
        parameters[name] = ["{" + ",".join(map(str, getattr(row, name))) + "}" for row in ordered]
    connection.execute(statement("count_minutes"), parameters)


def forget_minutes(connection: Connection) -> None:
    connection.execute(statement("forget_minutes"))


def echo(connection: Connection, *, channel: str, word: str) -> None:
    connection.execute(statement("echo"), {"channel": channel, "word": word})


def insert_once(cursor: Any, row: dict[str, Any]) -> str:
    """Insert a task in the caller's transaction; the id of the new row, or of the pending one with its dedupe key."""
    while True:
        cursor.execute(statement("enqueue_once"), row)
        inserted = cursor.fetchone()
        if inserted is not None:
            return str(inserted[0])
        cursor.execute(statement("pending_with_key"), row)
        pending = cursor.fetchone()
        if pending is not None:
            return str(pending[0])
        # Its holder was claimed between the two statements, so the key is free and the next round inserts.


def move_by_person(cursor: Any, event: LiteralString, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Run retry, run_now, dead_letter or resubmit in the caller's transaction; one row per task that exists."""
    cursor.execute(statement(event), parameters)
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _rows[R](connection: Connection, name: LiteralString, row: type[R], parameters: dict[str, Any]) -> list[R]:
    with connection.cursor(row_factory=kwargs_row(row)) as cursor:
        return cursor.execute(statement(name), parameters).fetchall()


def _fences(held: Sequence[Fence]) -> dict[str, Any]:
    return {"ids": [id for id, _ in held], "attempts": [attempt for _, attempt in held]}


def _completed(completions: Sequence[Completion]) -> dict[str, Any]:
    ordered = sorted(completions, key=_KEY)
    return {
        "ids": [done.id for done in ordered],
        "attempts": [done.attempt for done in ordered],
        "results": [done.result for done in ordered],
    }
