-- Running tasks whose lease ran out long ago and that no worker took over, paused ones left aside.
-- Index: tasks_unfinished (running rows).
-- Parameters: overdue_seconds.
SELECT id, task_type, queue, worker_id, lease_until, attempt
FROM tasks t
WHERE status = 'running' AND lease_until < now() - make_interval(secs => %(overdue_seconds)s)
    AND NOT EXISTS (
        SELECT FROM queue_controls c
        WHERE (c.kind = 'queue' AND c.name = t.queue) OR (c.kind = 'task_type' AND c.name = t.task_type)
    )
