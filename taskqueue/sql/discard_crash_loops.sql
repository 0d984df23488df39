-- Set aside tasks whose worker was lost once more while they had their last chance: running -> dead_lettered.
-- Guard: the lease has expired; FOR UPDATE rechecks it against a renewal that came in between.
-- They ran with no other suspect beside them, so they are what kills workers. The tasks that went down with them before
-- get those losses back: nobody is charged for another task's crash.
-- Index: tasks_unfinished (running rows), task_attempts_lost_with.
-- = ANY (ARRAY[...]) is = in a form that only a lookup of the key can serve: while statistics call a full table empty,
-- a join on = would rather read a whole index.
-- Parameters: worker_id (the caller, who is not lost), last_chance (losses), lost_message, message.
WITH culprits AS MATERIALIZED (
    SELECT id, attempt, worker_id, coalesce(started_at, updated_at) AS started_at FROM tasks
    WHERE status = 'running' AND lease_until < now() AND lost_count >= %(last_chance)s
        AND worker_id <> %(worker_id)s
    FOR UPDATE SKIP LOCKED
),
noted AS (
    INSERT INTO task_attempts (task_id, attempt, worker_id, started_at, finished_at, outcome, error_code, message)
    SELECT id, attempt, worker_id, started_at, now(), 'lost', 'crash_loop', %(lost_message)s FROM culprits
    ON CONFLICT (task_id, attempt) DO NOTHING
),
crashes AS (
    SELECT id AS culprit, worker_id FROM culprits
    UNION
    SELECT a.task_id, a.worker_id FROM task_attempts a
    JOIN culprits ON a.task_id = ANY (ARRAY[culprits.id]) WHERE a.outcome = 'lost'
),
companions AS (
    SELECT a.task_id AS id, count(*) AS losses
    FROM crashes
    JOIN task_attempts a
        ON a.worker_id = ANY (ARRAY[crashes.worker_id]) AND a.outcome = 'lost' AND a.task_id <> crashes.culprit
    WHERE NOT EXISTS (SELECT FROM culprits WHERE culprits.id = a.task_id)
    GROUP BY a.task_id
),
free AS MATERIALIZED (
    -- One that somebody has locked is passed over: a loss too many is better than all workers waiting here.
    SELECT t.id, companions.losses FROM companions JOIN tasks t ON t.id = ANY (ARRAY[companions.id])
    FOR NO KEY UPDATE OF t SKIP LOCKED
),
forgiven AS (
    UPDATE tasks t SET lost_count = greatest(t.lost_count - free.losses, 0) FROM free
    WHERE t.id = ANY (ARRAY[free.id])
)
UPDATE tasks t
SET status = 'dead_lettered', lost_count = least(t.lost_count, 1000000) + 1, worker_id = NULL, lease_until = NULL,
    finished_at = now(), updated_at = now(), error_code = 'crash_loop', message = %(message)s
FROM culprits
WHERE t.id = ANY (ARRAY[culprits.id])
RETURNING t.id, t.task_type, t.attempt, t.lost_count, t.correlation_id, culprits.worker_id AS lost_worker_id
