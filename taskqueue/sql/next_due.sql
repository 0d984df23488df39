-- Seconds until the nearest pending task that could be claimed here is due (0 or less: now), or NULL when there is none.
-- Index: tasks_claim, by lanes as in claim.sql.
-- Parameters: task_types, queues (NULL: all).
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
)
SELECT extract(epoch FROM min(head.embargo_until) - clock_timestamp())::float8 AS seconds
FROM lanes
CROSS JOIN LATERAL (
    SELECT t.embargo_until FROM tasks t
    WHERE t.status = 'pending' AND t.task_type = lanes.task_type AND t.queue = lanes.queue
        AND t.priority = lanes.priority
    ORDER BY t.embargo_until LIMIT 1
) AS head
WHERE (%(queues)s::text[] IS NULL OR lanes.queue = ANY (%(queues)s::text[]))
    AND NOT EXISTS (
        SELECT FROM queue_controls c
        WHERE (c.kind = 'queue' AND c.name = lanes.queue) OR (c.kind = 'task_type' AND c.name = lanes.task_type)
    )
