"""A task's life so far, read from its row and its attempts and told in moments. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.rows import class_row

from taskqueue.lifecycle import FINAL, Status

# All instants as seconds since the row was made, so that one clock, the database's, decides.
_SELECT: LiteralString = """
SELECT t.id, t.task_type, t.status, t.attempt, t.message, t.retry_count,
    extract(epoch FROM t.started_at - t.created_at)::float8 AS started,
    extract(epoch FROM t.finished_at - t.created_at)::float8 AS finished,
    extract(epoch FROM t.embargo_until - clock_timestamp())::float8 AS due_in,
    coalesce((
        SELECT jsonb_agg(jsonb_build_object(
            'attempt', a.attempt, 'outcome', a.outcome, 'message', a.message,
            'started', extract(epoch FROM a.started_at - t.created_at)::float8,
            'finished', extract(epoch FROM a.finished_at - t.created_at)::float8,
            'pause', extract(epoch FROM a.next_try_at - a.finished_at)::float8
        ) ORDER BY a.attempt)
        FROM task_attempts a WHERE a.task_id = t.id
    ), '[]') AS attempts,
    coalesce((
        SELECT jsonb_agg(jsonb_build_object(
            'at', extract(epoch FROM m.at - t.created_at)::float8,
            'status', m.to_status, 'event', m.event, 'actor', m.actor
        ) ORDER BY m.id)
        FROM task_transitions m WHERE m.task_id = t.id
    ), '[]') AS transitions
FROM tasks t
"""
_BY_ID: LiteralString = _SELECT + "WHERE t.id = ANY(%s) ORDER BY t.created_at, t.id"

# Rows that nobody told the demo of, found through the partial indexes of what is unfinished or went wrong.
_RECENT: LiteralString = """
(SELECT id, created_at FROM tasks WHERE status = 'pending' AND created_at > %(since)s LIMIT 100)
UNION ALL
(SELECT id, created_at FROM tasks
    WHERE status IN ('dead', 'dead_lettered', 'running') AND created_at > %(since)s LIMIT 100)
ORDER BY created_at, id
"""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The row came into a state, `at` seconds after it was made."""

    at: float
    status: str
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class TaskSeen:
    """A row and its attempts, as one statement saw them."""

    id: str
    task_type: str
    status: str
    attempt: int
    message: str | None
    retry_count: int
    started: float | None
    finished: float | None
    due_in: float
    attempts: Sequence[dict[str, Any]]
    transitions: Sequence[dict[str, Any]]

    @property
    def is_over(self) -> bool:
        return self.status in FINAL

    @property
    def moments(self) -> list[Moment]:
        """All that is known, oldest first. A later look at the same row only adds to its end."""
        moments = [Moment(at=0.0, status=Status.PENDING)]
        for tried in self.attempts:
            moments += [_try(tried["started"], tried["attempt"]), _failure(tried)]
        moments += [
            Moment(at=moved["at"], status=moved["status"], remark=f"{moved['event']} by {moved['actor']}")
            for moved in self.transitions
        ]
        moments.sort(key=lambda moment: moment.at)
        told = self.attempts[-1]["attempt"] if self.attempts else 0
        if self.started is not None and self.attempt > told:
            moments.append(_try(self.started, self.attempt))
        if self.finished is not None and moments[-1].status != self.status:
            moments.append(Moment(at=self.finished, status=self.status, remark=_first_line(self.message)))
        return moments


def look(connection: psycopg.Connection, ids: Sequence[str]) -> list[TaskSeen]:
    """The rows of these ids that there are, oldest first."""
    with connection.cursor(row_factory=class_row(TaskSeen)) as cursor:
        return cursor.execute(_BY_ID, [list(ids)]).fetchall()


def recent(connection: psycopg.Connection, since: Any) -> list[str]:
    """Ids of tasks made after the instant `since` that are unfinished or went wrong; the first hundred or so."""
    return [row[0] for row in connection.execute(_RECENT, {"since": since}).fetchall()]


def _try(at: float, number: int) -> Moment:
    return Moment(at=at, status=Status.RUNNING, remark=f"try {number}")


def _failure(tried: dict[str, Any]) -> Moment:
    remark = f"try {tried['attempt']} {tried['outcome']}: {_first_line(tried['message'])}"
    match tried["outcome"], tried["pause"]:
        case _, float() | int() as pause:
            status = Status.PENDING
            remark += f"; next try in {max(pause, 0):.1f} s"
        case "lost", _:
            # Another worker took it over, and has it now.
            status = Status.RUNNING
        case "discarded", _:
            status = Status.DEAD_LETTERED
        case _:
            status = Status.DEAD
    return Moment(at=tried["finished"], status=status, remark=remark)


def _first_line(message: str | None) -> str:
    return (message or "").partition("\n")[0]
