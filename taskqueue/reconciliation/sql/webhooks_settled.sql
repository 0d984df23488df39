-- Pending deliveries, due for long, of webhooks that are disabled or gone: they would be given up without a request.
-- Index: tasks_claim.
-- Parameters: task_type, overdue_seconds.
SELECT t.id, t.status, t.attempt, t.payload ->> 'webhook_id' AS webhook_id, w.disabled_at
FROM tasks t
LEFT JOIN webhooks w ON w.id = t.payload ->> 'webhook_id'
WHERE t.status = 'pending' AND t.task_type = %(task_type)s AND t.payload ->> 'webhook_id' IS NOT NULL
    AND t.embargo_until < now() - make_interval(secs => %(overdue_seconds)s)
    AND (w.id IS NULL OR w.disabled_at < now() - make_interval(secs => %(overdue_seconds)s))
