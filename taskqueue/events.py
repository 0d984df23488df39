"""The catalogue of what the queue says about itself. ``telemetry.emit`` sends these; logs and metrics subscribe.

Keys are the same for success and failure of one thing. No secret and no payload is ever among them.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from django.dispatch import Signal

TASK_KEYS = ("task_id", "task_type", "attempt", "correlation_id", "worker_id")
RUN_KEYS = (*TASK_KEYS, "queue", "latency_ms", "waited_ms", "error_code")


@dataclass(frozen=True, kw_only=True, eq=False)
class EventType:
    """One kind of event. ``signal`` receives ``sender`` (this) and ``data`` (a dict with exactly ``keys``)."""

    name: str
    level: int
    keys: tuple[str, ...]
    meaning: str
    signal: Signal = field(default_factory=lambda: Signal(use_caching=True), repr=False)

    @property
    def heard(self) -> bool:
        """Whether anybody listens. Events of each task are not even made otherwise."""
        return bool(self.signal.receivers)

    @cached_property
    def key_set(self) -> frozenset[str]:
        return frozenset(self.keys)


CATALOGUE: dict[str, EventType] = {}


def _declare(name: str, level: int, keys: tuple[str, ...], meaning: str) -> EventType:
    CATALOGUE[name] = EventType(name=name, level=level, keys=keys, meaning=meaning)
    return CATALOGUE[name]


RUN = _declare("worker.run", logging.INFO, RUN_KEYS, "An attempt succeeded.")
RETRY = _declare(
    "worker.retry",
    logging.WARNING,
    (*RUN_KEYS, "message", "move", "next_try_in_seconds"),
    "An attempt ended without success and the task waits for another: it failed, snoozed or timed out.",
)
EXHAUSTED = _declare(
    "worker.exhausted",
    logging.ERROR,
    (*RUN_KEYS, "message", "move"),
    "A task failed for good: its retries are used up, or it was discarded.",
)
CLAIMED = _declare(
    "taskqueue.task.claimed", logging.DEBUG, (*TASK_KEYS, "waited_ms"), "A worker took a task that was due."
)
RECLAIMED = _declare(
    "taskqueue.task.reclaimed",
    logging.WARNING,
    (*TASK_KEYS, "lost_worker_id", "lost_count"),
    "A worker took over a task whose worker was lost.",
)
RELEASED = _declare(
    "taskqueue.task.released", logging.INFO, TASK_KEYS, "A stopping worker gave a task back; no retry was used."
)
CLAIM_LOST = _declare(
    "taskqueue.claim.lost",
    logging.WARNING,
    (*TASK_KEYS, "move"),
    "A finish or renewal found that the task was no longer held; what the other run did stands.",
)
FINISH_REFUSED = _declare(
    "taskqueue.finish.refused",
    logging.ERROR,
    (*TASK_KEYS, "move", "reason"),
    "The database refuses to write how an attempt ended: its row is locked, or a trigger raises. It is tried again.",
)
CRASH_LOOP = _declare(
    "taskqueue.task.crash_loop",
    logging.ERROR,
    (*TASK_KEYS, "lost_worker_id", "lost_count"),
    "A task whose workers were lost again and again was set aside.",
)
TRANSITION = _declare(
    "taskqueue.transition",
    logging.INFO,
    ("move", "task_id", "count", "actor", "reason"),
    "A person or a program outside the worker moved tasks. `task_id` is empty when one statement moved many.",
)
TRANSITION_REFUSED = _declare(
    "taskqueue.transition_refused",
    logging.WARNING,
    ("move", "task_id", "count", "code", "actor"),
    "A move was asked for that the lifecycle or the facts do not allow.",
)
TYPES_WAITING = _declare(
    "taskqueue.types.waiting",
    logging.WARNING,
    ("worker_id", "task_types", "unhandled"),
    "Tasks are due whose type this worker does not handle; `unhandled` are those no live worker handles.",
)
STUCK = _declare(
    "taskqueue.handler.stuck",
    logging.ERROR,
    (*TASK_KEYS, "stuck", "slots"),
    "A handler did not return after its time was up; its slot is lost until the process ends.",
)
WORKER_STARTED = _declare(
    "taskqueue.worker.started",
    logging.INFO,
    ("worker_id", "version", "slots", "queues", "task_types", "listening"),
    "A worker process began to work.",
)
WORKER_DRAINING = _declare(
    "taskqueue.worker.draining",
    logging.INFO,
    ("worker_id", "reason", "running"),
    "A worker takes no new work and waits for what it runs.",
)
WORKER_STOPPED = _declare(
    "taskqueue.worker.stopped",
    logging.INFO,
    ("worker_id", "exit_code", "reason", "released"),
    "A worker process ended.",
)
LISTEN_CHANGED = _declare(
    "taskqueue.listen.changed",
    logging.WARNING,
    ("worker_id", "state", "previous", "reason"),
    "LISTEN was lost, came back, or brings nothing. Polling goes on in any case.",
)
DATABASE_LOST = _declare(
    "taskqueue.database.lost",
    logging.ERROR,
    ("worker_id", "part", "reason"),
    "A part of the worker cannot use the database; it tries again until the outage limit.",
)
DATABASE_BACK = _declare(
    "taskqueue.database.back",
    logging.INFO,
    ("worker_id", "part", "outage_seconds"),
    "The database answers again.",
)
OLD_TRANSACTION = _declare(
    "taskqueue.database.old_transaction",
    logging.WARNING,
    ("worker_id", "pid", "age_seconds", "role", "application", "state"),
    "A transaction has been open for long: what died since cannot be vacuumed, and claims grow slower.",
)
SERVICE_FAILED = _declare(
    "taskqueue.service.failed",
    logging.CRITICAL,
    ("worker_id", "part", "reason"),
    "A part of the worker failed for good; the rest is drained and the process ends with 1.",
)
WEBHOOK_SENT = _declare(
    "taskqueue.webhook.sent",
    logging.INFO,
    ("task_id", "attempt", "correlation_id", "webhook_id", "url", "method", "status", "duration_ms", "error_code"),
    "A webhook was sent, whatever came of it.",
)
RECONCILED = _declare(
    "taskqueue.reconciliation.reported",
    logging.INFO,
    ("report_id", "actor", "rules", "findings", "severities", "duration_ms"),
    "A reconciliation read everything and stored its report; `severities` counts what was found.",
)
_REPAIR_KEYS = ("report_id", "rule", "repair", "table", "code", "actor")
REPAIRED = _declare(
    "taskqueue.reconciliation.repaired", logging.WARNING, _REPAIR_KEYS, "A person had a repair of a plan made."
)
REPAIR_REFUSED = _declare(
    "taskqueue.reconciliation.repair_refused",
    logging.WARNING,
    _REPAIR_KEYS,
    "A repair was not made: the row changed since the report (`code`), is locked, or the database refuses it.",
)


def table(catalogue: Mapping[str, EventType] = CATALOGUE) -> str:
    """A catalogue as Markdown, for the page that explains it."""
    rows = ["| event | level | fields | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{event.name}` | {logging.getLevelName(event.level).lower()} "
        f"| {', '.join(f'`{key}`' for key in event.keys)} | {event.meaning} |"
        for event in catalogue.values()
    ]
    return "\n".join(rows) + "\n"
