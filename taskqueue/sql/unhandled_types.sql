-- Task types with due work that this worker does not handle. `handled`: another live worker does. `hopeless`: no live
-- worker anywhere has handled the type for an hour, and its work has waited that long too, so that a deploy in which
-- the program that enqueues is updated before the workers costs nothing. A task that already failed as unregistered
-- has shown its hour before.
-- Index: tasks_claim, by lanes as in claim.sql, and no further into each than its first due rows: scheduled ones may
-- be millions. tasks_unfinished for running ones.
-- Parameters: task_types (handled here), patience_seconds.
WITH RECURSIVE lanes (task_type, queue, priority) AS (
    (
        SELECT t.task_type, t.queue, t.priority FROM tasks t
        WHERE t.status = 'pending' ORDER BY t.task_type, t.queue, t.priority LIMIT 1
    )
    UNION ALL
    SELECT beyond.task_type, beyond.queue, beyond.priority
    FROM lanes
    CROSS JOIN LATERAL (
        SELECT t.task_type, t.queue, t.priority FROM tasks t
        WHERE t.status = 'pending'
            AND (t.task_type, t.queue, t.priority) > (lanes.task_type, lanes.queue, lanes.priority)
        ORDER BY t.task_type, t.queue, t.priority LIMIT 1
    ) AS beyond
),
waiting AS (
    SELECT lanes.task_type,
        due.embargo_until < now() - make_interval(secs => %(patience_seconds)s)
            OR coalesce(due.error_code = 'unregistered', false) AS patient
    FROM lanes
    CROSS JOIN LATERAL (
        SELECT t.embargo_until, t.error_code FROM tasks t
        WHERE t.status = 'pending' AND t.task_type = lanes.task_type AND t.queue = lanes.queue
            AND t.priority = lanes.priority AND t.embargo_until <= now()
        ORDER BY t.embargo_until LIMIT 100
    ) AS due
    WHERE lanes.task_type <> ALL (%(task_types)s::text[])
    UNION ALL
    SELECT t.task_type, true FROM tasks t
    WHERE t.status = 'running' AND t.lease_until < now() - make_interval(secs => %(patience_seconds)s)
        AND t.task_type <> ALL (%(task_types)s::text[])
),
by_type AS (
    SELECT task_type, bool_or(patient) AS patient FROM waiting GROUP BY task_type
)
SELECT b.task_type,
    EXISTS (
        SELECT FROM workers w
        WHERE w.stopped_at IS NULL AND w.beat_at > now() - interval '1 minute' AND b.task_type = ANY (w.task_types)
    ) AS handled,
    b.patient AND NOT EXISTS (
        SELECT FROM workers w
        WHERE w.beat_at > now() - make_interval(secs => %(patience_seconds)s) AND b.task_type = ANY (w.task_types)
    ) AS hopeless
FROM by_type b
ORDER BY b.task_type
