"""What stands in the tables of the demo's experiments, read as any program may read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.rows import class_row

_NEWEST: LiteralString = """
SELECT data FROM snapshots WHERE experiment_id = %s AND status = 'success' ORDER BY created_at DESC LIMIT 1
"""
_RUNS: LiteralString = """
SELECT id, experiment_id, job, status, message, counts,
    extract(epoch FROM finished_at - started_at)::float8 AS seconds
FROM job_runs WHERE experiment_id = ANY(%s) AND finished_at IS NOT NULL ORDER BY finished_at, id
"""
_DRAWS: LiteralString = """
SELECT count(*) AS drawn, count(outcome) AS settled, count(*) FILTER (WHERE autofailed_outcome) AS autofailed
FROM draws WHERE experiment_id = %s
"""
_ASSIGNED: LiteralString = "SELECT count(*) FROM arm_assignments WHERE experiment_id = %s"
_CONTEXTS: LiteralString = "SELECT context_vals FROM draws WHERE experiment_id = %s AND context_vals IS NOT NULL"
_BETA: LiteralString = """
SELECT sum(alpha - alpha_init + beta - beta_init)::float8 FROM arms WHERE experiment_id = %s
"""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that has ended."""

    id: str
    experiment_id: str
    job: str
    status: str
    message: str | None
    counts: dict[str, Any] | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Draws:
    drawn: int
    settled: int
    autofailed: int


def newest(connection: psycopg.Connection, experiment: str) -> dict[str, Any] | None:
    """The data of the newest successful snapshot."""
    row = connection.execute(_NEWEST, [experiment]).fetchone()
    return None if row is None else row[0]


def runs(connection: psycopg.Connection, experiments: Sequence[str]) -> list[Run]:
    """All of them, those that ended first first."""
    with connection.cursor(row_factory=class_row(Run)) as cursor:
        return cursor.execute(_RUNS, [list(experiments)]).fetchall()


def draws(connection: psycopg.Connection, experiment: str) -> Draws:
    with connection.cursor(row_factory=class_row(Draws)) as cursor:
        return cursor.execute(_DRAWS, [experiment]).fetchall()[0]


def assigned(connection: psycopg.Connection, experiment: str) -> int:
    return int(connection.execute(_ASSIGNED, [experiment]).fetchall()[0][0])


def contexts(connection: psycopg.Connection, experiment: str) -> list[list[float]]:
    return [row[0] for row in connection.execute(_CONTEXTS, [experiment]).fetchall()]


def learned(connection: psycopg.Connection, experiment: str) -> float:
    """How many outcomes the Beta posteriors of the arms stand for."""
    return float(connection.execute(_BETA, [experiment]).fetchall()[0][0])
