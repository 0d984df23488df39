"""How long a worker took to start the first and the last tasks of a full queue, by the rows themselves."""

from __future__ import annotations

from tests.support.own_server import QueueDatabase


def first_and_last(database: QueueDatabase, *, sample: int) -> tuple[float, float]:
    """Seconds from the first to the last start among the first ``sample`` tasks, and among the last ones."""
    (row,) = database.execute(
        """
        WITH numbered AS (
            SELECT started_at, row_number() OVER (ORDER BY started_at) AS place, count(*) OVER () AS total FROM tasks
        )
        SELECT
            extract(epoch FROM max(started_at) FILTER (WHERE place <= %(sample)s) - min(started_at))::float8 AS first,
            extract(epoch FROM max(started_at)
                - min(started_at) FILTER (WHERE place > total - %(sample)s))::float8 AS last
        FROM numbered
        """,
        {"sample": sample},
    )
    return row["first"], row["last"]
