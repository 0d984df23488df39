-- Enqueue finished tasks again as new ones that name their origin; the old rows stay as they are.
-- The dedupe key is not copied: a person asks for exactly this task. The correlation id is, so that both are found.
-- Parameters: ids, actor, reason. One row per id that exists: its state, whether a copy was made, and the copy's id.
WITH chosen AS MATERIALIZED (
    SELECT t.* FROM tasks t WHERE t.id = ANY (%(ids)s::text[]) ORDER BY t.id FOR SHARE
),
moved AS (
    INSERT INTO tasks (task_type, payload, queue, priority, max_retries, correlation_id, origin_id)
    SELECT task_type, payload, queue, priority, max_retries, correlation_id, id
    FROM chosen WHERE status IN ('success', 'dead', 'dead_lettered')
    RETURNING id, origin_id
),
recorded AS (
    INSERT INTO task_transitions (task_id, from_status, to_status, event, actor, reason)
    SELECT chosen.id, chosen.status, chosen.status, 'resubmit', %(actor)s, %(reason)s
    FROM moved JOIN chosen ON chosen.id = moved.origin_id
)
SELECT chosen.id, chosen.status, moved.id IS NOT NULL AS moved, false AS superseded, moved.id AS copy
FROM chosen LEFT JOIN moved ON moved.origin_id = chosen.id
