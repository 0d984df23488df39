-- Insert a task with a dedupe key, unless a pending task has it. No row: there is one; the caller reads it.
-- Guard: the partial unique index, which also makes us wait for a concurrent insert of the same key to settle.
-- Parameters: task_type, payload (JSON text), run_at (or NULL), delay_seconds, queue, priority, max_retries, dedupe_key,
-- correlation_id.
INSERT INTO tasks (task_type, payload, embargo_until, queue, priority, max_retries, dedupe_key, correlation_id)
VALUES (
    %(task_type)s, %(payload)s::jsonb,
    coalesce(%(run_at)s::timestamptz, now() + make_interval(secs => %(delay_seconds)s)),
    %(queue)s, %(priority)s, %(max_retries)s, %(dedupe_key)s, %(correlation_id)s
)
ON CONFLICT (dedupe_key) WHERE status = 'pending' AND dedupe_key IS NOT NULL DO NOTHING
RETURNING id
