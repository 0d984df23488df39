"""Putting tasks into the queue from Python, in the caller's transaction: rolled back means never queued."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import batched
from operator import itemgetter
from typing import Any

import pydantic
from django.db import connections, router, transaction

from taskqueue import bulk, in_process, store
from taskqueue.errors import InvalidPayload, InvalidTask
from taskqueue.handlers import DEFAULT_QUEUE, Handler, Registry, registry
from taskqueue.ids import new_correlation_id
from taskqueue.models import Task
from taskqueue.text import NAME_LIMIT, problem_of_name, storable_json

_LONGEST_DEDUPE_KEY = 1_000
_SMALLINT = range(-32_768, 32_768)
_INT = range(2_147_483_648)
_LONGEST_DELAY_SECONDS = 3_153_600_000
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
    row["correlation_id"] = new.correlation_id or new_correlation_id()
    alias = router.db_for_write(Task)
    id = _insert(alias, row)
    _run_on_commit(alias, [id], handlers)
    return Task.objects.using(alias).get(id=id)


def enqueue_many(tasks: Iterable[NewTask], *, handlers: Registry = registry) -> list[str]:
    """Enqueue many tasks by COPY, all or none, with one notification. Their ids, in the order given.

    Where a task has a dedupe key that a pending one holds, the pending one's id is returned.
    """
    new_tasks = list(tasks)
    rows: list[dict[str, Any]] = []
    batches: Iterable[Sequence[dict[str, Any]]] = (
        _rows(batch, handlers, rows) for batch in batched(new_tasks, bulk.BATCH)
    )
    if any(_runs_others_code(new, handlers) for new in new_tasks):
        # It may use the database itself, which a connection in the middle of a COPY cannot do.
        batches = list(batches)
    alias = router.db_for_write(Task)
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        bulk.copy_rows(cursor, batches)
        # In the order of the keys: two callers with the same keys in another order would wait for each other.
        for row in sorted((row for row in rows if row["dedupe_key"] is not None), key=itemgetter("dedupe_key")):
            row["correlation_id"] = row["correlation_id"] or new_correlation_id()
            row["id"] = store.insert_once(cursor, row)
        ids = [row["id"] for row in rows]
        _run_on_commit(alias, ids, handlers)
    return ids


def _run_on_commit(alias: str, ids: Sequence[str], handlers: Registry) -> None:
    """In immediate mode the process that enqueues runs the tasks, too."""
    if not in_process.immediate():
        return

    def run() -> None:
        for id in dict.fromkeys(ids):
            in_process.process(id, handlers=handlers)

    transaction.on_commit(run, using=alias)


def _rows(batch: Iterable[NewTask], handlers: Registry, rows: list[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The rows of a batch, added to ``rows``; those without a dedupe key are given back."""
    made = [_row(new, handlers) for new in batch]
    rows += made
    return [row for row in made if row["dedupe_key"] is None]


def _runs_others_code(new: NewTask, handlers: Registry) -> bool:
    """Validators and serialisers of a payload's type are anybody's."""
    handler = handlers.get(new.task_type) if isinstance(new.task_type, str) else None
    return isinstance(new.payload, pydantic.BaseModel) or (handler is not None and handler.adapter is not None)


def _insert(alias: str, row: dict[str, Any]) -> str:
    with connections[alias].cursor() as cursor:
        return store.insert_once(cursor, row)


def _row(new: NewTask, handlers: Registry) -> dict[str, Any]:
    problems: list[str] = []
    handler = handlers.get(new.task_type) if isinstance(new.task_type, str) else None
    _judge_name("task_type", new.task_type, problems)
    queue = new.queue if new.queue is not None else handler.queue if handler else DEFAULT_QUEUE
    _judge_name("queue", queue, problems)
    if new.dedupe_key is not None:
        _judge_name("dedupe_key", new.dedupe_key, problems, _LONGEST_DEDUPE_KEY)
    if new.correlation_id is not None:
        _judge_name("correlation_id", new.correlation_id, problems)
    _judge_number("priority", new.priority, _SMALLINT, problems)
    if new.max_retries is not None:
        _judge_number("max_retries", new.max_retries, _INT, problems)
    delay_seconds = 0.0 if new.delay is None and new.run_at is None else _delay(new, problems)
    payload = None if new.payload is None and handler is None else _payload(new, handler, problems)
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
        "correlation_id": new.correlation_id,
    }


def _payload(new: NewTask, handler: Handler | None, problems: list[str]) -> str | None:
    payload = new.payload
    if isinstance(payload, pydantic.BaseModel):
        payload = payload.model_dump(mode="json")
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
        if not isinstance(new.run_at, datetime):
            problems.append("run_at: must be a datetime")
        elif new.run_at.tzinfo is None:
            problems.append("run_at: needs a time zone")
        elif not _CALENDAR[0] <= new.run_at < _CALENDAR[1]:
            problems.append("run_at: must lie between the years 1970 and 9000")
    if new.delay is None:
        return 0.0
    delay: object = new.delay.total_seconds() if isinstance(new.delay, timedelta) else new.delay
    if not isinstance(delay, int | float) or not 0 <= delay <= _LONGEST_DELAY_SECONDS:
        problems.append("delay: must be 0 seconds to 100 years")
        return 0.0
    return float(delay)


def _judge_name(name: str, value: object, problems: list[str], limit: int = NAME_LIMIT) -> None:
    problem = problem_of_name(value, limit)
    if problem is not None:
        problems.append(f"{name}: {problem}")


def _judge_number(name: str, value: object, allowed: range, problems: list[str]) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
        problems.append(f"{name}: must be a whole number from {allowed[0]} to {allowed[-1]}")
