-- Of each type and queue with pending tasks, the oldest that is due, where it has been due for long, nothing is paused,
-- and no live worker says that it serves both.
-- Index: tasks_claim; each lane costs one probe to find and one to read.
-- Parameters: overdue_seconds, silent_seconds (since the last beat of a live worker).
WITH RECURSIVE lanes (task_type, queue, priority) AS (
    (SELECT task_type, queue, priority FROM tasks WHERE status = 'pending' ORDER BY task_type, queue, priority LIMIT 1)
    UNION ALL
    SELECT beyond.task_type, beyond.queue, beyond.priority
    FROM lanes
    CROSS JOIN LATERAL (
        SELECT t.task_type, t.queue, t.priority FROM tasks t
        WHERE t.status = 'pending' AND (t.task_type, t.queue, t.priority) > (lanes.task_type, lanes.queue, lanes.priority)
        ORDER BY t.task_type, t.queue, t.priority LIMIT 1
    ) AS beyond
),
oldest AS (
    SELECT lanes.task_type, lanes.queue, min(due.embargo_until) AS since
    FROM lanes
    CROSS JOIN LATERAL (
        SELECT t.embargo_until FROM tasks t
        WHERE t.status = 'pending' AND t.task_type = lanes.task_type AND t.queue = lanes.queue
            AND t.priority = lanes.priority
        ORDER BY t.embargo_until LIMIT 1
    ) AS due
    GROUP BY lanes.task_type, lanes.queue
)
SELECT oldest.task_type, oldest.queue, oldest.since
FROM oldest
WHERE oldest.since < now() - make_interval(secs => %(overdue_seconds)s)
    AND NOT EXISTS (
        SELECT FROM queue_controls c
        WHERE (c.kind = 'queue' AND c.name = oldest.queue) OR (c.kind = 'task_type' AND c.name = oldest.task_type)
    )
    AND NOT EXISTS (
        SELECT FROM workers w
        WHERE w.stopped_at IS NULL AND w.beat_at > now() - make_interval(secs => %(silent_seconds)s)
            AND oldest.task_type = ANY (w.task_types) AND (w.queues IS NULL OR oldest.queue = ANY (w.queues))
    )
ORDER BY oldest.task_type, oldest.queue
