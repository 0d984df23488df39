-- Lift the embargo of pending tasks: pending -> pending, by a person. Each move is recorded in task_transitions.
-- Guard: the state, read under the row's lock.
-- Parameters: ids, actor, reason. One row per id that exists: its state before, and whether it moved.
WITH chosen AS MATERIALIZED (
    SELECT t.id, t.status FROM tasks t WHERE t.id = ANY (%(ids)s::text[]) ORDER BY t.id FOR UPDATE
),
moved AS (
    UPDATE tasks t SET embargo_until = least(t.embargo_until, now()), updated_at = now()
    FROM chosen WHERE t.id = chosen.id AND chosen.status = 'pending'
    RETURNING t.id
),
recorded AS (
    INSERT INTO task_transitions (task_id, from_status, to_status, event, actor, reason)
    SELECT id, 'pending', 'pending', 'run_now', %(actor)s, %(reason)s FROM moved
)
SELECT chosen.id, chosen.status, moved.id IS NOT NULL AS moved, false AS superseded
FROM chosen LEFT JOIN moved ON moved.id = chosen.id
