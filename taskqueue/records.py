"""What goes into the queue's statements and what comes out of them, as values."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskqueue.lifecycle import Status
from taskqueue.models import Outcome

MAX_LOSSES = 3
LAST_CHANCE = MAX_LOSSES - 1

# Of one claim: the task's id and its attempt. An id alone may be held twice here, once in vain and once again.
type Fence = tuple[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A task held by this worker. ``attempt`` is the fence; ``payload`` is JSON text, perhaps unreadable."""

    id: str
    task_type: str
    payload: str | None
    queue: str
    priority: int
    retry_count: int
    max_retries: int | None
    attempt: int
    lost_count: int
    correlation_id: str
    waited_seconds: float
    lost_worker_id: str | None = None

    @property
    def last_chance(self) -> bool:
        return self.lost_count >= LAST_CHANCE


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """What a worker takes. ``queues`` of None means all of them."""

    task_types: tuple[str, ...]
    queues: tuple[str, ...] | None
    worker_id: str
    lease_seconds: float

    def parameters(self) -> dict[str, Any]:
        return {
            "task_types": list(self.task_types),
            "queues": None if self.queues is None else list(self.queues),
            "worker_id": self.worker_id,
            "lease_seconds": self.lease_seconds,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    id: str
    attempt: int
    result: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Settlement:
    """An attempt that did not succeed, and what becomes of the task: ``status`` is pending, dead or dead_lettered."""

    id: str
    attempt: int
    status: Status
    outcome: Outcome
    uses_retry: bool = False
    delay_seconds: float = 0.0
    embargo_until: datetime | None = None
    message: str | None = None
    error_code: str | None = None
    error_class: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Renewed:
    """A claim that is still ours. ``moved`` is False while somebody else has its row locked."""

    id: str
    attempt: int
    moved: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    id: str
    attempt: int
    status: str
    superseded: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashLoop:
    id: str
    task_type: str
    attempt: int
    lost_count: int
    correlation_id: str
    lost_worker_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Beat:
    id: str
    host: str
    pid: int
    version: str
    draining: bool
    slots: int
    running: int
    stuck: int
    listen_state: str
    queues: list[str] | None
    task_types: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingType:
    task_type: str
    handled: bool
    hopeless: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """How much a worker can take. ``window``: candidates looked at, more than slots where others claim as well.

    ``last_chance_free``: it holds no task that was ever lost; ``suspects_free``: it holds none at its last chance.
    ``now``: what counts as due, where it is not the database's clock that says so.
    """

    slots: int
    window: int
    last_chance_free: bool
    suspects_free: bool = True
    now: datetime | None = None

    def parameters(self) -> dict[str, Any]:
        return {
            "slots": self.slots,
            "window": self.window,
            "last_chance": LAST_CHANCE,
            "last_chance_free": self.last_chance_free,
            "suspects_free": self.suspects_free,
            "now": self.now,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class OldTransaction:
    pid: int
    role: str
    application: str
    state: str
    age_seconds: float
    began: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanTotals:
    """What one worker counted in one span (its length in minutes) for one task type and queue.

    ``waits`` and ``runs`` are counts by bucket (``minutes.bucket_of``), without the empty ones at the end.
    """

    span: int
    begins_at: datetime
    task_type: str
    queue: str
    succeeded: int
    retried: int
    snoozed: int
    dead: int
    dead_lettered: int
    waited_ms: int
    ran_ms: int
    waits: list[int]
    runs: list[int]
