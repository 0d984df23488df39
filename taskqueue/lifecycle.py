"""States of a task and the only moves between them.

Everything that judges a move is derived from ``MOVES``: the CHECK constraints and partial indexes of ``models``, the
trigger that refuses every other move in the database, the admin's buttons and the diagram in ``docs/lifecycle.md``.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class Status(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    DEAD = "dead"
    DEAD_LETTERED = "dead_lettered"


class Event(StrEnum):
    CLAIM = "claim"
    RECLAIM = "reclaim"
    RENEW = "renew"
    COMPLETE = "complete"
    FAIL = "fail"
    SNOOZE = "snooze"
    RELEASE = "release"
    EXHAUST = "exhaust"
    DISCARD = "discard"
    DEAD_LETTER = "dead_letter"
    RUN_NOW = "run_now"
    RETRY = "retry"


class Mover(StrEnum):
    WORKER = "worker"  # any worker that finds the row in the source state
    HOLDER = "holder"  # only the worker whose fence is on the row
    PERSON = "person"  # a person, or a program outside the worker


class Refusal(StrEnum):
    """Why a move did not happen. The values are stable: programs compare them."""

    TERMINAL_STATE = "terminal_state"
    INVALID_TRANSITION = "invalid_transition"
    UNKNOWN_STATE = "unknown_state"
    UNKNOWN_EVENT = "unknown_event"
    NOT_FOUND = "not_found"
    CLAIM_LOST = "claim_lost"
    SUPERSEDED = "superseded"  # a pending task holds the same dedupe key


class Tone(StrEnum):
    """How urgently a state asks for a person's eye."""

    QUIET = "quiet"
    ACTIVE = "active"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, kw_only=True)
class Move:
    event: Event
    sources: tuple[Status, ...]
    target: Status
    by: Mover
    effect: str


MOVES: tuple[Move, ...] = (
    Move(
        event=Event.CLAIM,
        sources=(Status.PENDING,),
        target=Status.RUNNING,
        by=Mover.WORKER,
        effect="due, type registered, not paused; sets fence, lease and worker",
    ),
    Move(
        event=Event.RECLAIM,
        sources=(Status.RUNNING,),
        target=Status.RUNNING,
        by=Mover.WORKER,
        effect="the lease has expired; counts a loss, sets a new fence and lease",
    ),
    Move(
        event=Event.RENEW,
        sources=(Status.RUNNING,),
        target=Status.RUNNING,
        by=Mover.HOLDER,
        effect="moves the lease on",
    ),
    Move(
        event=Event.COMPLETE,
        sources=(Status.RUNNING,),
        target=Status.SUCCESS,
        by=Mover.HOLDER,
        effect="stores the result, clears the message",
    ),
    Move(
        event=Event.FAIL,
        sources=(Status.RUNNING,),
        target=Status.PENDING,
        by=Mover.HOLDER,
        effect="uses a retry; due again after the backoff",
    ),
    Move(
        event=Event.SNOOZE,
        sources=(Status.RUNNING,),
        target=Status.PENDING,
        by=Mover.HOLDER,
        effect="the handler asked to wait; no retry used",
    ),
    Move(
        event=Event.RELEASE,
        sources=(Status.RUNNING,),
        target=Status.PENDING,
        by=Mover.HOLDER,
        effect="the worker stops; no retry used, due at once",
    ),
    Move(
        event=Event.EXHAUST,
        sources=(Status.RUNNING,),
        target=Status.DEAD,
        by=Mover.HOLDER,
        effect="failed, and no retry is left",
    ),
    Move(
        event=Event.DISCARD,
        sources=(Status.RUNNING,),
        target=Status.DEAD_LETTERED,
        by=Mover.HOLDER,
        effect="given up for good: by the handler, for its payload, or as a crash loop",
    ),
    Move(
        event=Event.DEAD_LETTER,
        sources=(Status.PENDING, Status.DEAD),
        target=Status.DEAD_LETTERED,
        by=Mover.PERSON,
        effect="set aside, with a reason",
    ),
    Move(
        event=Event.RUN_NOW,
        sources=(Status.PENDING,),
        target=Status.PENDING,
        by=Mover.PERSON,
        effect="lifts the embargo",
    ),
    Move(
        event=Event.RETRY,
        sources=(Status.DEAD,),
        target=Status.PENDING,
        by=Mover.PERSON,
        effect="counts of retries and losses back to 0; due at once",
    ),
)

# A final state has an end time; a terminal one is left by no move. `dead` is final and yet may be retried.
FINAL: frozenset[Status] = frozenset({Status.SUCCESS, Status.DEAD, Status.DEAD_LETTERED})
TERMINAL: frozenset[Status] = frozenset(Status) - {source for move in MOVES for source in move.sources}
PAIRS: frozenset[tuple[Status, Status]] = frozenset(
    (source, move.target) for move in MOVES for source in move.sources if source is not move.target
)


@dataclass(frozen=True, kw_only=True)
class Decision:
    allowed: bool
    target: Status | None = None
    refusal: Refusal | None = None


def can_transition(status: str, event: str) -> Decision:
    """Say whether ``event`` may happen to a task in ``status``, and where it leads. Changes nothing."""
    if status not in Status:
        return Decision(allowed=False, refusal=Refusal.UNKNOWN_STATE)
    if event not in Event:
        return Decision(allowed=False, refusal=Refusal.UNKNOWN_EVENT)
    move = move_for(Event(event))
    if status in move.sources:
        return Decision(allowed=True, target=move.target)
    terminal = Status(status) in TERMINAL
    return Decision(allowed=False, refusal=Refusal.TERMINAL_STATE if terminal else Refusal.INVALID_TRANSITION)


def move_for(event: Event) -> Move:
    return next(move for move in MOVES if move.event is event)


def events_for(status: str, by: Mover) -> tuple[Event, ...]:
    return tuple(move.event for move in MOVES if move.by is by and status in move.sources)


class TaskState(Protocol):
    """What ``state_view`` reads of a task."""

    status: str
    retry_count: int
    embargo_until: datetime


@dataclass(frozen=True, kw_only=True)
class StateView:
    label: str
    tone: Tone
    events: tuple[Event, ...]


def state_view(task: TaskState, now: datetime) -> StateView:
    """Name a task's state as people see it at ``now``: *retrying* and *scheduled* are pending tasks that wait."""
    events = events_for(task.status, Mover.PERSON)
    match task.status:
        case Status.PENDING if task.retry_count > 0:
            label, tone = "retrying", Tone.WARNING
        case Status.PENDING if task.embargo_until > now:
            label, tone = "scheduled", Tone.QUIET
        case Status.PENDING:
            label, tone = "pending", Tone.QUIET
        case Status.RUNNING:
            label, tone = "running", Tone.ACTIVE
        case Status.SUCCESS:
            label, tone = "success", Tone.GOOD
        case Status.DEAD:
            label, tone = "dead", Tone.BAD
        case Status.DEAD_LETTERED:
            label, tone = "dead-lettered", Tone.BAD
        case unknown:
            label, tone = unknown, Tone.WARNING
    return StateView(label=label, tone=tone, events=events)


def sql_pairs() -> str:
    """All permitted changes of status as an SQL list of rows."""
    return "(" + ", ".join(f"('{source}', '{target}')" for source, target in sorted(PAIRS)) + ")"


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> pending: enqueue"]
    lines += [f"    {source} --> {move.target}: {move.event}" for move in MOVES for source in move.sources]
    lines += [f"    {status} --> [*]" for status in sorted(TERMINAL)]
    return "\n".join(lines) + "\n"


def table() -> str:
    """The table as Markdown, for the page that explains it."""
    rows = ["| event | from → to | by | effect |", "|---|---|---|---|"]
    rows += [
        f"| `{move.event}` | {', '.join(move.sources)} → {move.target} | {move.by} | {move.effect} |" for move in MOVES
    ]
    return "\n".join(rows) + "\n"
