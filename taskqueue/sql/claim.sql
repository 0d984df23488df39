-- Claim due tasks: pending -> running, at most as many as there are free slots.
-- Guard: still pending and due when its lock is taken, since another worker may just have run it; locked
-- rows are another worker's and are passed over. So is one whose attempts cannot grow, or its error would be all's.
-- Index: tasks_claim. A lane is one (type, queue, priority); each costs one probe to find and one to read, so rows that
-- are scheduled, paused or of a type not served here are never walked, however many there are.
-- A task at its last chance (lost so often that one more loss discards it) runs with no other such task beside it.
-- While one does, the others are no candidates, or a crowd of them would hide everything behind it.
-- Keys are looked up by = ANY (ARRAY(...)) with no join, and the state stands in coalesce(): while statistics call a
-- full table empty, a join would rather read a whole index.
-- Parameters: task_types, queues (NULL: all), slots, window (candidates looked at; more than slots, since others claim
-- the same ones at the same moment), worker_id, lease_seconds, last_chance (losses), last_chance_free, now (NULL: the
-- database's clock; only moves what counts as due).
WITH RECURSIVE lanes (task_type, queue, priority) AS (
    SELECT head.task_type, head.queue, head.priority
    FROM unnest(%(task_types)s::text[]) AS served (task_type)
    CROSS JOIN LATERAL (
        SELECT t.task_type, t.queue, t.priority FROM tasks t
        WHERE t.status = 'pending' AND t.task_type = served.task_type
        ORDER BY t.task_type, t.queue, t.priority LIMIT 1
    ) AS head
    UNION ALL
    SELECT beyond.task_type, beyond.queue, beyond.priority
    FROM lanes
    CROSS JOIN LATERAL (
        SELECT t.task_type, t.queue, t.priority FROM tasks t
        WHERE t.status = 'pending' AND t.task_type = lanes.task_type
            AND (t.queue, t.priority) > (lanes.queue, lanes.priority)
        ORDER BY t.task_type, t.queue, t.priority LIMIT 1
    ) AS beyond
),
candidates AS MATERIALIZED (
    SELECT due.id, due.priority, due.embargo_until, due.last_chance
    FROM lanes
    CROSS JOIN LATERAL (
        SELECT t.id, t.priority, t.embargo_until, t.lost_count >= %(last_chance)s AS last_chance FROM tasks t
        WHERE t.status = 'pending' AND t.task_type = lanes.task_type AND t.queue = lanes.queue
            AND t.priority = lanes.priority AND t.embargo_until <= coalesce(%(now)s::timestamptz, now())
            AND (%(last_chance_free)s OR t.lost_count < %(last_chance)s)
        ORDER BY t.embargo_until LIMIT %(window)s
    ) AS due
    WHERE (%(queues)s::text[] IS NULL OR lanes.queue = ANY (%(queues)s::text[]))
        AND NOT EXISTS (
            SELECT FROM queue_controls c
            WHERE (c.kind = 'queue' AND c.name = lanes.queue) OR (c.kind = 'task_type' AND c.name = lanes.task_type)
        )
    ORDER BY due.priority DESC, due.embargo_until LIMIT %(window)s
),
ranked AS MATERIALIZED (
    SELECT id, priority, embargo_until, last_chance,
        row_number() OVER (PARTITION BY last_chance ORDER BY priority DESC, embargo_until) AS place
    FROM candidates
),
picked AS MATERIALIZED (
    SELECT t.id FROM tasks t
    WHERE t.id = ANY (ARRAY(
            SELECT id FROM ranked WHERE NOT ranked.last_chance OR (ranked.place = 1 AND %(last_chance_free)s)
        ))
        AND coalesce(t.status, '') = 'pending' AND t.embargo_until <= coalesce(%(now)s::timestamptz, now())
        AND t.attempt < 2147483647
    ORDER BY t.priority DESC, t.embargo_until
    LIMIT %(slots)s
    FOR UPDATE SKIP LOCKED
)
UPDATE tasks t
SET status = 'running', attempt = t.attempt + 1, worker_id = %(worker_id)s, started_at = now(), updated_at = now(),
    lease_until = now() + make_interval(secs => %(lease_seconds)s)
WHERE t.id = ANY (ARRAY(SELECT id FROM picked))
RETURNING t.id, t.task_type, t.payload::text AS payload, t.queue, t.priority, t.retry_count, t.max_retries, t.attempt,
    t.lost_count, t.correlation_id, greatest(extract(epoch FROM now() - t.embargo_until), 0)::float8 AS waited_seconds
