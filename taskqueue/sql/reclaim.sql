-- Take over tasks whose worker was lost: running -> running, with a new fence, as many as there are free slots.
-- Guard: the lease has expired; FOR UPDATE rechecks it against a renewal that came in between.
-- Each loss counts, unless discard_crash_loops.sql has found the task that killed this worker, in this crash or another
-- one. A task at its last chance is taken last, alone, and only when no other that was ever lost is held here; while it
-- runs, none of those is taken. So the next loss finds one suspect. The others wait for their turn or another worker.
-- Index: tasks_unfinished (running rows; there are never more than all workers have slots).
-- What this worker itself holds is not lost, even when it was stopped so long that its leases ran out: it renews them.
-- = ANY (ARRAY[...]) is = in a form that only a lookup of the key can serve: while statistics call a full table empty,
-- a join on = would rather read a whole index.
-- Parameters: task_types, queues (NULL: all), slots, worker_id, lease_seconds, last_chance, last_chance_free, suspects_free,
-- message.
WITH expired AS MATERIALIZED (
    SELECT t.id, t.attempt, t.lost_count + CASE WHEN EXISTS (
            SELECT FROM task_attempts a JOIN tasks killer ON killer.id = ANY (ARRAY[a.task_id])
            WHERE a.worker_id = t.worker_id AND a.outcome = 'lost' AND killer.error_code = 'crash_loop'
        ) THEN 0 ELSE 1 END AS lost_count
    FROM tasks t
    WHERE t.status = 'running' AND t.lease_until < now() AND t.task_type = ANY (%(task_types)s::text[])
        AND t.lost_count < %(last_chance)s AND t.worker_id <> %(worker_id)s
        AND (%(queues)s::text[] IS NULL OR t.queue = ANY (%(queues)s::text[]))
        AND NOT EXISTS (
            SELECT FROM queue_controls c
            WHERE (c.kind = 'queue' AND c.name = t.queue) OR (c.kind = 'task_type' AND c.name = t.task_type)
        )
),
ranked AS MATERIALIZED (
    SELECT id, attempt, lost_count, lost_count >= %(last_chance)s AS last_chance,
        row_number() OVER (PARTITION BY lost_count >= %(last_chance)s ORDER BY id) AS place
    FROM expired
),
picked AS MATERIALIZED (
    SELECT t.id, t.attempt, t.worker_id, coalesce(t.started_at, t.updated_at) AS started_at, ranked.lost_count
    FROM ranked
    JOIN tasks t ON t.id = ANY (ARRAY[ranked.id])
    WHERE coalesce(t.status, '') = 'running' AND t.lease_until < now() AND t.attempt = ranked.attempt
        AND t.attempt < 2147483647
        AND CASE
            WHEN NOT ranked.last_chance THEN ranked.lost_count = 0 OR %(suspects_free)s
            ELSE ranked.place = 1 AND %(last_chance_free)s
                AND NOT EXISTS (SELECT FROM ranked other WHERE NOT other.last_chance)
        END
    LIMIT %(slots)s
    FOR UPDATE OF t SKIP LOCKED
),
noted AS (
    INSERT INTO task_attempts (task_id, attempt, worker_id, started_at, finished_at, outcome, error_code, message)
    SELECT id, attempt, worker_id, started_at, now(), 'lost', 'worker_lost', %(message)s FROM picked
    ON CONFLICT (task_id, attempt) DO NOTHING
)
UPDATE tasks t
SET attempt = t.attempt + 1, lost_count = picked.lost_count, worker_id = %(worker_id)s, started_at = now(),
    updated_at = now(), lease_until = now() + make_interval(secs => %(lease_seconds)s)
FROM picked
WHERE t.id = ANY (ARRAY[picked.id])
RETURNING t.id, t.task_type, t.payload::text AS payload, t.queue, t.priority, t.retry_count, t.max_retries, t.attempt,
    t.lost_count, t.correlation_id, greatest(extract(epoch FROM now() - t.embargo_until), 0)::float8 AS waited_seconds,
    picked.worker_id AS lost_worker_id
