"""What people and other apps may do to tasks that exist: each in the caller's transaction, each recorded.

Enqueueing is in ``enqueueing``; both are re-exported here so that callers need one import.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, LiteralString

from django.db import connections, transaction
from django.db.models import QuerySet
from django.db.utils import IntegrityError

from taskqueue import events, store, telemetry
from taskqueue.enqueueing import NewTask, enqueue, enqueue_many
from taskqueue.lifecycle import Refusal, can_transition
from taskqueue.models import Task
from taskqueue.text import storable

__all__ = [
    "MoveReport",
    "NewTask",
    "dead_letter",
    "enqueue",
    "enqueue_many",
    "resubmit",
    "retry",
    "run_now",
]

_CHUNK = 5_000
_SAMPLE = 100


@dataclass(frozen=True, kw_only=True)
class MoveReport:
    """How many tasks moved, and how many were refused by which stable code.

    ``ids`` names the first hundred that moved; for ``resubmit`` the new tasks.
    """

    event: str
    moved: int = 0
    refused: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    ids: tuple[str, ...] = ()


def retry(tasks: "QuerySet[Task]", *, actor: str, reason: str = "") -> MoveReport:
    """dead → pending, counts back to 0, due at once. ``superseded``: a pending task holds the same dedupe key."""
    return _move("retry", tasks, actor=actor, reason=reason)


def run_now(tasks: "QuerySet[Task]", *, actor: str, reason: str = "") -> MoveReport:
    """Lift the embargo of pending tasks."""
    return _move("run_now", tasks, actor=actor, reason=reason)


def dead_letter(tasks: "QuerySet[Task]", *, actor: str, reason: str) -> MoveReport:
    """pending or dead → dead_lettered, for good. Raises ``ValueError`` without a reason."""
    if not reason.strip():
        raise ValueError("reason: say why these tasks are set aside for good")
    return _move("dead_letter", tasks, actor=actor, reason=reason)


def resubmit(tasks: "QuerySet[Task]", *, actor: str, reason: str = "") -> MoveReport:
    """Enqueue new tasks like these finished ones; webhooks they send carry new ids. The old rows do not change."""
    return _move("resubmit", tasks, actor=actor, reason=reason)


def _move(event: LiteralString, tasks: "QuerySet[Task]", *, actor: str, reason: str) -> MoveReport:
    """Move all that the selection holds, a chunk a statement. Ids are read first: a move may leave the selection.

    Copies that ``resubmit`` makes may enter it, and a fast worker finishes them while we go on: they are passed over.
    """
    moved = 0
    copies: set[str] = set()
    sample: list[str] = []
    refused: Counter[str] = Counter()
    for chunk in _chunks(tasks):
        ids = [id for id in chunk if id not in copies]
        rows = _statement(tasks.db, event, {"ids": ids, "actor": storable(actor, 200), "reason": storable(reason)})
        for row in rows:
            if row["moved"]:
                moved += 1
                if "copy" in row:
                    copies.add(row["copy"])
                if len(sample) < _SAMPLE:
                    sample.append(row.get("copy") or row["id"])
            else:
                refused[_code(event, row)] += 1
        gone = len(ids) - len(rows)
        if gone:
            refused[Refusal.NOT_FOUND.value] += gone
    _tell(event, moved, sample, refused, actor=actor, reason=reason)
    return MoveReport(event=event, moved=moved, refused=MappingProxyType(dict(refused)), ids=tuple(sample))


def _chunks(tasks: "QuerySet[Task]") -> Iterator[list[str]]:
    """The ids of the selection in key order, without a cursor that would keep a transaction open."""
    ids = tasks.order_by("id").values_list("id", flat=True)
    # From the start, since '' is an id like any other. A selection through a join holds a task several times.
    chunk = list(dict.fromkeys(ids[:_CHUNK]))
    while chunk:
        yield chunk
        chunk = list(dict.fromkeys(ids.filter(id__gt=chunk[-1])[:_CHUNK]))


def _statement(alias: str, event: LiteralString, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """A unique violation means that a dedupe key was taken between look and write; the second look sees it."""
    for last_try in (False, False, True):
        try:
            with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
                return store.move_by_person(cursor, event, parameters)
        except IntegrityError:
            if last_try:
                raise
    raise AssertionError("unreachable")


def _code(event: str, row: Mapping[str, Any]) -> str:
    if row["superseded"]:
        return Refusal.SUPERSEDED.value
    if event == "resubmit":
        return Refusal.INVALID_TRANSITION.value
    return (can_transition(row["status"], event).refusal or Refusal.INVALID_TRANSITION).value


def _tell(event: str, moved: int, sample: list[str], refused: Counter[str], *, actor: str, reason: str) -> None:
    only = sample[0] if moved == 1 else None
    if moved:
        telemetry.emit(events.TRANSITION, move=event, task_id=only, count=moved, actor=actor, reason=reason)
    for code, count in refused.items():
        telemetry.emit(events.TRANSITION_REFUSED, move=event, task_id=None, count=count, code=code, actor=actor)
