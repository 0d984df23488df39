"""``job_runs`` as ledger, lock and fence: open, renew, close, and close what lost workers left open.

Each function is one statement on a connection in autocommit. What the guard refuses is missing from what comes back.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from psycopg.rows import kwargs_row

from experiments.kinds import Job
from experiments.models import RunStatus
from experiments.scheduler.statements import statement
from taskqueue.database import Connection
from taskqueue.ids import new_id

_LOST = "its worker was lost while it ran: it was killed, ran out of memory, hung or lost the database"


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """``runs_seen``: how many runs of the job had ended when it was found due; None opens it all the same."""

    experiment_id: str
    job: Job
    runs_seen: int | None = None
    id: str = field(default_factory=lambda: new_id("run_"))


@dataclass(frozen=True, kw_only=True)
class Closing:
    """How a run ended: ``status`` is success, failed or released. ``error_code`` is not stored; the message has it."""

    run_id: str
    status: RunStatus
    message: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    error_code: str | None = None


class Fate(StrEnum):
    """Of a closing: written, to be written later since a write of the run holds its row, or refused."""

    CLOSED = "closed"
    HELD = "held"
    GONE = "gone"


@dataclass(frozen=True, kw_only=True)
class ExpiredRun:
    """A run that was closed as lost; ``worker_id`` is the worker that was lost."""

    id: str
    experiment_id: str
    job: str
    worker_id: str


def open_runs(connection: Connection, runs: Sequence[NewRun], *, worker_id: str, lease_seconds: float) -> set[str]:
    """The ids of the runs that are open now; the others' experiments have one, or are not committed, or are not due."""
    parameters = {
        "ids": [run.id for run in runs],
        "experiment_ids": [run.experiment_id for run in runs],
        "jobs": [run.job.value for run in runs],
        "runs_seen": [run.runs_seen for run in runs],
        "worker_id": worker_id,
        "lease_seconds": lease_seconds,
    }
    return {id for (id,) in connection.execute(statement("open_runs"), parameters).fetchall()}


def renew_runs(connection: Connection, ids: Collection[str], *, lease_seconds: float) -> dict[str, bool]:
    """The runs that are still open, and whether their leases moved: one in the middle of a write is passed over."""
    parameters = {"ids": list(ids), "lease_seconds": lease_seconds}
    return dict(connection.execute(statement("renew_runs"), parameters).fetchall())


def close_runs(connection: Connection, closings: Sequence[Closing]) -> dict[str, Fate]:
    """What became of each closing."""
    parameters = {
        "ids": [closing.run_id for closing in closings],
        "statuses": [closing.status.value for closing in closings],
        "messages": [closing.message for closing in closings],
        "counts": [json.dumps(dict(closing.counts)) if closing.counts else None for closing in closings],
    }
    return {id: Fate(fate) for id, fate in connection.execute(statement("close_runs"), parameters).fetchall()}


def close_expired(connection: Connection, *, worker_id: str) -> list[ExpiredRun]:
    """Close as lost what workers other than ``worker_id`` hold and have not renewed."""
    return _rows(connection, "close_expired", ExpiredRun, {"worker_id": worker_id, "message": _LOST})


def release_orphans(connection: Connection, *, worker_id: str, known_ids: Collection[str]) -> int:
    """Give back what this worker opened without hearing of it; how many runs that were."""
    parameters = {"worker_id": worker_id, "known_ids": list(known_ids)}
    return connection.execute(statement("release_orphans"), parameters).rowcount


def _rows[R](connection: Connection, name: str, row: type[R], parameters: dict[str, Any]) -> list[R]:
    with connection.cursor(row_factory=kwargs_row(row)) as cursor:
        return cursor.execute(statement(name), parameters).fetchall()
