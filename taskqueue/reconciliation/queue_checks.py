"""The queue's own rules: statements beside, judges here."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from taskqueue.lifecycle import FINAL, MOVES, Status
from taskqueue.reconciliation.queue_repairs import FIT_COLUMNS, SET_ASIDE, SET_ASIDE_DELIVERY, SET_ASIDE_DUPLICATE
from taskqueue.reconciliation.rules import Check, Found, Kind, Row, Rule, Severity, sql_file

# Time enough for workers to be replaced, and for a queue to be worked off.
OVERDUE_SECONDS = 3600.0
LOST_SECONDS = 900.0
SILENT_SECONDS = 60.0
_SQL = Path(__file__).with_name("sql")
_WEBHOOK = "webhook.outbound"

BUDGET = Rule(
    name="tasks.budget",
    kind=Kind.INCONSISTENT,
    severity=Severity.ERROR,
    table="tasks",
    meaning="an unfinished task has used at most `max_retries` retries, no count is negative, and its fence can grow.",
    arises="another program wrote `retry_count`, `max_retries` or `attempt`, or lowered a limit that was used up.",
    guidance="See why it fails before you resubmit it; a pending one can be set aside. A running one ends by itself.",
    repair=SET_ASIDE,
)
STATE = Rule(
    name="tasks.state",
    kind=Kind.INCONSISTENT,
    severity=Severity.ERROR,
    table="tasks",
    meaning="`lease_until` and `worker_id` are set exactly while a task is running, `finished_at` exactly in final"
    " states, and the status is declared.",
    arises="a CHECK was dropped, or a restore left it out, and a program wrote the row.",
    guidance="Put the constraint back (`migrate` made it) once the rows are repaired. A status that is not declared"
    " must be set by hand, by whoever knows what became of the task.",
    repair=FIT_COLUMNS,
)
DEDUPE = Rule(
    name="tasks.dedupe",
    kind=Kind.DUPLICATE,
    severity=Severity.ERROR,
    table="tasks",
    meaning="at most one pending task holds a `dedupe_key`.",
    arises="the unique index is missing, or damaged by a new version of the system's collations.",
    guidance="Set the older ones aside, keep the newest; then rebuild the index with REINDEX.",
    repair=SET_ASIDE_DUPLICATE,
)
UNSERVED = Rule(
    name="tasks.progress",
    kind=Kind.STALE,
    severity=Severity.WARNING,
    table="tasks",
    meaning="what is due is run: no task has been due for an hour while no live worker serves its type and queue.",
    arises="no worker runs, its `--queues` leave this one out, or a deploy removed the handler of the type.",
    guidance="Start a worker that serves it, pause the queue or type if it is meant to wait, or dead-letter the tasks.",
)
LOST = Rule(
    name="tasks.lost",
    kind=Kind.STALE,
    severity=Severity.ERROR,
    table="tasks",
    meaning="a running task is held: its lease did not run out more than 15 minutes ago.",
    arises="its worker was lost, and no other one serves the type or is alive.",
    guidance="Start a worker that serves the type and queue: it takes the task over. Nobody else may end its claim.",
)
HISTORY = Rule(
    name="tasks.history",
    kind=Kind.INCONSISTENT,
    severity=Severity.WARNING,
    table="task_transitions",
    meaning="every recorded move is one of the lifecycle.",
    arises="a program wrote `task_transitions` by itself, or moved a task with the triggers switched off.",
    guidance="Find out who: `actor` and `at` are in the row. History is never rewritten.",
)
WEBHOOKS = Rule(
    name="webhooks.settled",
    kind=Kind.STALE,
    severity=Severity.WARNING,
    table="tasks",
    meaning="no delivery waits, due for more than an hour, for a webhook that is disabled or gone.",
    arises="the webhook was disabled or deleted while no worker runs deliveries, or their queue is paused.",
    guidance="Set them aside, or enable the webhook and resubmit what its receiver still needs.",
    repair=SET_ASIDE_DELIVERY,
)


def budget(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        counts = {name: row[name] for name in ("retry_count", "max_retries", "attempt", "lost_count")}
        limit = row["max_retries"]
        yield Found(
            rule=BUDGET.name,
            subject={"id": row["id"]},
            expected={"retry_count": "0 or more" if limit is None else f"0 to {limit}", "attempt": "below 2147483647"},
            observed={"status": row["status"], **counts},
            before={"status": row["status"], **counts} if row["status"] == Status.PENDING else None,
        )


def state(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        columns = {name: row[name] for name in ("status", "lease_until", "worker_id", "finished_at")}
        known = row["status"] in Status
        yield Found(
            rule=STATE.name,
            subject={"id": row["id"]},
            expected=_shape(row["status"]) if known else {"status": sorted(status.value for status in Status)},
            observed=columns,
            before=columns if known else None,
        )


def dedupe(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        yield Found(
            rule=DEDUPE.name,
            subject={"id": row["id"]},
            expected="the only pending task of its dedupe key",
            observed={"dedupe_key": row["dedupe_key"], "also_held_by": row["keeper"]},
            before={name: row[name] for name in ("status", "attempt", "keeper")},
        )


def unserved(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        yield Found(
            rule=UNSERVED.name,
            subject={"task_type": row["task_type"], "queue": row["queue"]},
            expected="a live worker that serves the type and the queue",
            observed={"oldest_due_since": row["since"], "workers": 0},
        )


def lost(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        yield Found(
            rule=LOST.name,
            subject={"id": row["id"]},
            expected="a lease that its worker renews, or another worker that took it over",
            observed={name: row[name] for name in ("task_type", "queue", "worker_id", "lease_until", "attempt")},
        )


def history(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        yield Found(
            rule=HISTORY.name,
            subject={"id": row["id"], "task_id": row["task_id"]},
            expected="a move of the lifecycle",
            observed={"event": row["event"], "from": row["from_status"], "to": row["to_status"]},
        )


def webhooks(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        yield Found(
            rule=WEBHOOKS.name,
            subject={"id": row["id"]},
            expected="settled: its webhook takes no deliveries",
            observed={"webhook_id": row["webhook_id"], "disabled_at": row["disabled_at"] or "there is no such webhook"},
            before={name: row[name] for name in ("status", "attempt", "disabled_at")},
        )


def _shape(status: str) -> Mapping[str, Any]:
    held = "set" if status == Status.RUNNING else None
    return {"lease_until": held, "worker_id": held, "finished_at": "set" if status in FINAL else None}


_TRIPLES = [(move.event.value, source.value, move.target.value) for move in MOVES for source in move.sources]
CHECKS = (
    Check(rules=(BUDGET,), statement=sql_file(_SQL / "tasks_budget.sql"), judge=budget),
    Check(
        rules=(STATE,),
        statement=sql_file(_SQL / "tasks_state.sql"),
        judge=state,
        parameters={"declared": [status.value for status in Status], "final": sorted(status.value for status in FINAL)},
    ),
    Check(rules=(DEDUPE,), statement=sql_file(_SQL / "tasks_dedupe.sql"), judge=dedupe),
    Check(
        rules=(UNSERVED,),
        statement=sql_file(_SQL / "tasks_unserved.sql"),
        judge=unserved,
        parameters={"overdue_seconds": OVERDUE_SECONDS, "silent_seconds": SILENT_SECONDS},
    ),
    Check(
        rules=(LOST,),
        statement=sql_file(_SQL / "tasks_lost.sql"),
        judge=lost,
        parameters={"overdue_seconds": LOST_SECONDS},
    ),
    Check(
        rules=(HISTORY,),
        statement=sql_file(_SQL / "tasks_history.sql"),
        judge=history,
        parameters={
            name: [triple[place] for triple in _TRIPLES] for place, name in enumerate(("events", "sources", "targets"))
        },
    ),
    Check(
        rules=(WEBHOOKS,),
        statement=sql_file(_SQL / "webhooks_settled.sql"),
        judge=webhooks,
        parameters={"task_type": _WEBHOOK, "overdue_seconds": OVERDUE_SECONDS},
    ),
)
