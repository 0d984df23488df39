-- Claim one task by its id: pending -> running.
-- Guard: that of claim.sql. Still pending and due when its lock is taken, type served, neither paused; a row that is
-- locked is another's and passed over.
-- Index: the primary key. The state stands in coalesce() so that no plan walks all pending tasks.
-- Parameters: id, task_types, worker_id, lease_seconds, now (NULL: the database's clock; only moves what counts as due).
WITH picked AS MATERIALIZED (
    SELECT t.id FROM tasks t
    WHERE t.id = %(id)s AND coalesce(t.status, '') = 'pending' AND t.task_type = ANY (%(task_types)s::text[])
        AND t.embargo_until <= coalesce(%(now)s::timestamptz, now()) AND t.attempt < 2147483647
        AND NOT EXISTS (
            SELECT FROM queue_controls c
            WHERE (c.kind = 'queue' AND c.name = t.queue) OR (c.kind = 'task_type' AND c.name = t.task_type)
        )
    FOR UPDATE OF t SKIP LOCKED
)
UPDATE tasks t
SET status = 'running', attempt = t.attempt + 1, worker_id = %(worker_id)s, started_at = now(), updated_at = now(),
    lease_until = now() + make_interval(secs => %(lease_seconds)s)
WHERE t.id = ANY (ARRAY(SELECT id FROM picked))
RETURNING t.id, t.task_type, t.payload::text AS payload, t.queue, t.priority, t.retry_count, t.max_retries, t.attempt,
    t.lost_count, t.correlation_id, greatest(extract(epoch FROM now() - t.embargo_until), 0)::float8 AS waited_seconds
