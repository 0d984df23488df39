"""Putting tasks into the queue from Python, in the caller's transaction: rolled back means never queued."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pydantic
from django.db import connections, router, transaction

from taskqueue import store
from taskqueue.errors import InvalidPayload, InvalidTask
from taskqueue.handlers import DEFAULT_QUEUE, Registry, registry
from taskqueue.ids import new_correlation_id, new_id
from taskqueue.models import Task
from taskqueue.text import storable_json

_LONGEST_TEXT = 200
_LONGEST_DEDUPE_KEY = 1_000
_SMALLINT = range(-32_768, 32_768)
_INT = range(2_147_483_648)
_CALENDAR = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, kw_only=True, slots=True)
class NewTask:
    """A task to enqueue. ``delay`` (seconds or a timedelta) or ``run_at`` (an aware instant), not both."""

    task_type: str
    payload: Any = None
    delay: float | timedelta | None = None
    run_at: datetime | None = None
    priority: int = 0
    queue: str | None = None
    dedupe_key: str | None = None
    max_retries: int | None = None
    correlation_id: str | None = None


def enqueue(
    task_type: str,
    payload: Any = None,
    *,
    delay: float | timedelta | None = None,
    run_at: datetime | None = None,
    priority: int = 0,
    queue: str | None = None,
    dedupe_key: str | None = None,
    max_retries: int | None = None,
    correlation_id: str | None = None,
    handlers: Registry = registry,
) -> Task:
    """Enqueue one task. While a pending task has the ``dedupe_key``, that task is returned instead of a new one.

    Raises ``InvalidTask`` naming every field that cannot be; nothing is stored then. A type without a handler in this
    process is accepted: its handler may live in another program.
    """
    new = NewTask(
        task_type=task_type,
        payload=payload,
        delay=delay,
        run_at=run_at,
        priority=priority,
        queue=queue,
        dedupe_key=dedupe_key,
        max_retries=max_retries,
        correlation_id=correlation_id,
    )
    row = _row(new, handlers)
    alias = router.db_for_write(Task)
    return Task.objects.using(alias).get(id=_insert(alias, row))


def enqueue_many(tasks: Iterable[NewTask], *, handlers: Registry = registry) -> list[str]:
    """Enqueue many tasks by COPY, all or none, with one notification. Their ids, in the order given.

    Where a task has a dedupe key that a pending one holds, the pending one's id is returned.
    """
    rows = [_row(new, handlers) for new in tasks]
    alias = router.db_for_write(Task)
    with transaction.atomic(using=alias):
        plain = [row for row in rows if row["dedupe_key"] is None]
        for row in plain:
            row["id"] = new_id("task_")
        _copy(alias, plain)
        for row in rows:
            if row["dedupe_key"] is not None:
                row["id"] = _insert(alias, row)
    return [row["id"] for row in rows]


def _insert(alias: str, row: dict[str, Any]) -> str:
    with connections[alias].cursor() as cursor:
        return store.insert_once(cursor, row)


def _copy(alias: str, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    columns = "id, task_type, payload, embargo_until, queue, priority, max_retries, correlation_id"
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT now()")
        now = cursor.fetchall()[0][0]
        with cursor.copy(f"COPY tasks ({columns}) FROM STDIN") as copy:
            for row in rows:
                due = row["run_at"] or now + timedelta(seconds=row["delay_seconds"])
                copy.write_row(
                    (
                        row["id"],
                        row["task_type"],
                        row["payload"],
                        due,
                        row["queue"],
                        row["priority"],
                        row["max_retries"],
                        row["correlation_id"],
                    )
                )


def _row(new: NewTask, handlers: Registry) -> dict[str, Any]:
    problems: list[str] = []
    handler = handlers.get(new.task_type)
    # None is "not given" for the other texts; here it is a fault like any other value that is none.
    _judge_text("task_type", new.task_type if new.task_type is not None else "", _LONGEST_TEXT, problems)
    queue = new.queue if new.queue is not None else handler.queue if handler else DEFAULT_QUEUE
    _judge_text("queue", queue, _LONGEST_TEXT, problems)
    _judge_text("dedupe_key", new.dedupe_key, _LONGEST_DEDUPE_KEY, problems)
    _judge_text("correlation_id", new.correlation_id, _LONGEST_TEXT, problems)
    _judge_number("priority", new.priority, _SMALLINT, problems)
    if new.max_retries is not None:
        _judge_number("max_retries", new.max_retries, _INT, problems)
    delay_seconds = _delay(new, problems)
    payload = _payload(new, handlers, problems)
    if problems:
        raise InvalidTask(str(new.task_type), problems)
    return {
        "task_type": new.task_type,
        "payload": payload,
        "run_at": new.run_at,
        "delay_seconds": delay_seconds,
        "queue": queue,
        "priority": new.priority,
        "max_retries": new.max_retries,
        "dedupe_key": new.dedupe_key,
        "correlation_id": new.correlation_id or new_correlation_id(),
    }


def _payload(new: NewTask, handlers: Registry, problems: list[str]) -> str | None:
    payload = new.payload
    if isinstance(payload, pydantic.BaseModel):
        payload = payload.model_dump(mode="json")
    handler = handlers.get(new.task_type)
    if handler is not None:
        try:
            handler.parse(payload)
        except InvalidPayload as error:
            problems += [f"payload.{problem}" for problem in error.problems]
    if payload is None:
        return None
    try:
        return storable_json(payload)
    except ValueError as error:
        problems.append(f"payload: {error}")
        return None


def _delay(new: NewTask, problems: list[str]) -> float:
    if new.run_at is not None:
        if new.delay is not None:
            problems.append("delay: cannot be given together with run_at")
        if new.run_at.tzinfo is None:
            problems.append("run_at: needs a time zone")
        elif not _CALENDAR[0] <= new.run_at < _CALENDAR[1]:
            problems.append("run_at: must lie between the years 1970 and 9000")
    if new.delay is None:
        return 0.0
    seconds = new.delay.total_seconds() if isinstance(new.delay, timedelta) else float(new.delay)
    if not 0 <= seconds <= 3_153_600_000:
        problems.append("delay: must be 0 seconds to 100 years")
    return seconds


def _judge_text(name: str, value: object, longest: int, problems: list[str]) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not 1 <= len(value) <= longest:
        problems.append(f"{name}: must be a text of 1 to {longest} characters")
    elif "\x00" in value or not value.isprintable():
        problems.append(f"{name}: must not contain control characters or lone surrogates")


def _judge_number(name: str, value: object, allowed: range, problems: list[str]) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
        problems.append(f"{name}: must be a whole number from {allowed[0]} to {allowed[-1]}")
