"""What is due now over all experiments, and when to look again: ``sql/due.sql`` as a function."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from psycopg.rows import dict_row

from experiments.kinds import Job
from experiments.scheduler.schedule import Intervals
from experiments.scheduler.statements import statement
from taskqueue.database import Connection


@dataclass(frozen=True, kw_only=True)
class Room:
    """What may be taken now. ``held_datasources`` has one entry for each run that this process holds."""

    slots: int
    datasource_slots: int
    held_datasources: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class DueJob:
    """``runs`` is how many runs of the job had ended when this was seen; ``late_seconds`` the time since it was due."""

    experiment_id: str
    job: Job
    datasource_id: str
    runs: int
    due_at: datetime
    late_seconds: float


@dataclass(frozen=True, kw_only=True)
class Look:
    """``jobs`` fit the room, oldest first. ``due`` counts all that are due, also those that do not fit.

    ``next_in_seconds``: until the next one that is not due yet; None when there is none before the horizon.
    """

    jobs: tuple[DueJob, ...]
    due: int
    next_at: datetime | None
    next_in_seconds: float | None


def look_for_due(
    connection: Connection,
    *,
    jobs: Collection[Job],
    intervals: Intervals,
    room: Room,
    horizon_seconds: float,
    now: datetime | None = None,
) -> Look:
    """``now`` falls back to the database's clock, by which everything is judged."""
    parameters = {
        "now": now,
        "horizon_seconds": horizon_seconds,
        "jobs": [job.value for job in jobs],
        "snapshot_seconds": intervals.snapshot.total_seconds(),
        "pull_seconds": intervals.pull.total_seconds(),
        "slots": room.slots,
        "datasource_slots": room.datasource_slots,
        "held_datasources": list(room.held_datasources),
    }
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(statement("due"), parameters).fetchall()
    # In the zone of a session, differences would be those of clocks on the wall.
    now = rows[0]["now"].astimezone(UTC)
    found = tuple(
        DueJob(
            experiment_id=row["experiment_id"],
            job=Job(row["job"]),
            datasource_id=row["datasource_id"],
            runs=row["runs"],
            due_at=row["due_at"].astimezone(UTC),
            late_seconds=(now - row["due_at"].astimezone(UTC)).total_seconds(),
        )
        for row in rows
        if row["experiment_id"] is not None
    )
    next_at = rows[0]["next_at"] and rows[0]["next_at"].astimezone(UTC)
    return Look(
        jobs=found,
        due=rows[0]["due"],
        next_at=next_at,
        next_in_seconds=None if next_at is None else (next_at - now).total_seconds(),
    )
