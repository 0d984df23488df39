-- Give dead tasks another life: dead -> pending, due at once, by a person. Each move is recorded in task_transitions.
-- Guard: the state, read under the row's lock; concurrent calls wait for each other and each task moves once.
-- Of several tasks with one dedupe key only one may be pending: the newest chosen, and none while one is pending already.
-- Parameters: ids, actor, reason. One row per id that exists: its state before, and whether it moved.
WITH chosen AS MATERIALIZED (
    SELECT t.id, t.status, t.dedupe_key FROM tasks t
    WHERE t.id = ANY (%(ids)s::text[]) ORDER BY t.id FOR UPDATE
),
judged AS MATERIALIZED (
    SELECT c.id, c.status, c.status = 'dead' AND c.dedupe_key IS NOT NULL AND (
            EXISTS (SELECT FROM tasks p WHERE p.status = 'pending' AND p.dedupe_key = c.dedupe_key)
            OR row_number() OVER (PARTITION BY c.status, c.dedupe_key ORDER BY c.id DESC) > 1
        ) AS superseded
    FROM chosen c
),
moved AS (
    UPDATE tasks t
    SET status = 'pending', retry_count = 0, lost_count = 0, embargo_until = now(), finished_at = NULL, updated_at = now()
    FROM judged WHERE t.id = judged.id AND judged.status = 'dead' AND NOT judged.superseded
    RETURNING t.id
),
recorded AS (
    INSERT INTO task_transitions (task_id, from_status, to_status, event, actor, reason)
    SELECT id, 'dead', 'pending', 'retry', %(actor)s, %(reason)s FROM moved
)
SELECT judged.id, judged.status, moved.id IS NOT NULL AS moved, judged.superseded
FROM judged LEFT JOIN moved ON moved.id = judged.id
