"""Which task types and queues there are to filter by, without reading the table for it."""

from dataclasses import dataclass

from django.db import connections

from taskqueue.handlers import Registry, registry

_MOST = 100

# One probe of the index tasks_claim for each pair, however many tasks it has. Types and queues of tasks that are all
# finished come from the handlers and from what workers said they serve.
_LANES = """
WITH RECURSIVE lanes (task_type, queue, place) AS (
    (SELECT t.task_type, t.queue, 1 FROM tasks t WHERE t.status = 'pending' ORDER BY t.task_type, t.queue LIMIT 1)
    UNION ALL
    SELECT beyond.task_type, beyond.queue, lanes.place + 1
    FROM lanes
    CROSS JOIN LATERAL (
        SELECT t.task_type, t.queue FROM tasks t
        WHERE t.status = 'pending' AND (t.task_type, t.queue) > (lanes.task_type, lanes.queue)
        ORDER BY t.task_type, t.queue LIMIT 1
    ) AS beyond
    WHERE lanes.place < %s
)
SELECT 'task_type' AS kind, task_type AS name FROM lanes
UNION ALL SELECT 'queue', queue FROM lanes
UNION ALL SELECT kind, name FROM queue_controls
UNION ALL SELECT 'task_type', unnest(task_types) FROM workers
UNION ALL SELECT 'queue', unnest(queues) FROM workers
"""


@dataclass(frozen=True, kw_only=True)
class KnownLanes:
    """At most a hundred names of each, in order."""

    task_types: tuple[str, ...]
    queues: tuple[str, ...]


def known_lanes(alias: str = "default", handlers: Registry = registry) -> KnownLanes:
    found: dict[str, set[str]] = {
        "task_type": set(handlers.handlers),
        "queue": {handler.queue for handler in handlers.handlers.values()},
    }
    with connections[alias].cursor() as cursor:
        cursor.execute(_LANES, [_MOST])
        for kind, name in cursor.fetchall():
            found[kind].add(name)
    return KnownLanes(task_types=_ordered(found["task_type"]), queues=_ordered(found["queue"]))


def _ordered(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names)[:_MOST])
