-- Set tasks aside for good: pending or dead -> dead_lettered, by a person. Each move is recorded in task_transitions.
-- Guard: the state, read under the row's lock.
-- Parameters: ids, actor, reason. One row per id that exists: its state before, and whether it moved.
WITH chosen AS MATERIALIZED (
    SELECT t.id, t.status FROM tasks t WHERE t.id = ANY (%(ids)s::text[]) ORDER BY t.id FOR UPDATE
),
moved AS (
    UPDATE tasks t
    SET status = 'dead_lettered', finished_at = now(), updated_at = now(),
        error_code = coalesce(t.error_code, 'dead_lettered')
    FROM chosen WHERE t.id = chosen.id AND chosen.status IN ('pending', 'dead')
    RETURNING t.id
),
recorded AS (
    INSERT INTO task_transitions (task_id, from_status, to_status, event, actor, reason)
    SELECT chosen.id, chosen.status, 'dead_lettered', 'dead_letter', %(actor)s, %(reason)s
    FROM moved JOIN chosen ON chosen.id = moved.id
)
SELECT chosen.id, chosen.status, moved.id IS NOT NULL AS moved, false AS superseded
FROM chosen LEFT JOIN moved ON moved.id = chosen.id
