"""How long the due query takes: up to 10,000 experiments and 5,000,000 draws, of which a fifth is pending."""

import time
from collections.abc import Sequence
from statistics import median, quantiles

from bench.maintenance_database import MaintenanceDatabase
from experiments.kinds import Job
from experiments.scheduler.due import Room, look_for_due
from experiments.scheduler.schedule import Intervals
from taskqueue.database import HASHING, Database
from tests.support.due_rows import FILL

SIZES = ((100, 50_000), (1_000, 500_000), (10_000, 5_000_000))
MOST_MILLISECONDS = 50.0
_LOOKS = 60


def measure(database: MaintenanceDatabase, sizes: Sequence[tuple[int, int]] = SIZES) -> bool:
    """Prints a line for each size; whether the last one's median is within the bound."""
    middle = 0.0
    for experiments, draws in sizes:
        database.empty()
        with database.connection() as connection:
            # Rows as they would be; triggers would take longer than all else.
            connection.execute("SET session_replication_role = replica")
            for statement in FILL.format(experiments=experiments, draws=draws).split(";\n"):
                connection.execute(statement.encode())
            connection.execute("VACUUM ANALYZE")
            counted = connection.execute("SELECT count(*), count(*) - count(outcome) FROM draws").fetchone()
        milliseconds = _look()
        middle = median(milliseconds)
        print(
            f"due query, {experiments:,} experiments, {counted[0]:,} draws, {counted[1]:,} pending: "
            f"median {middle:.1f} ms, p95 {quantiles(milliseconds, n=20)[-1]:.1f} ms",
            flush=True,
        )
    return middle <= MOST_MILLISECONDS


def _look() -> list[float]:
    connection = Database(name="bench", session=HASHING).open("due")
    taken = []
    for _ in range(_LOOKS):
        began = time.perf_counter()
        look_for_due(
            connection,
            jobs=Job,
            intervals=Intervals(),
            room=Room(slots=4, datasource_slots=2),
            horizon_seconds=5.0,
        )
        taken.append((time.perf_counter() - began) * 1000)
    connection.close()
    # The first ones plan, and fetch pages.
    return taken[5:]
