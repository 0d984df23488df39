-- Task types with due work that this worker does not handle. `handled`: another live worker does. `hopeless`: no live
-- worker anywhere has handled the type for an hour, and its work has waited that long too, so that a deploy in which
-- the program that enqueues is updated before the workers costs nothing. A task that already failed as unregistered
-- has shown its hour before.
-- Index: tasks_claim, one probe for each type that has pending tasks; tasks_unfinished for running ones.
-- Parameters: task_types (handled here), patience_seconds.
WITH RECURSIVE types (task_type) AS (
    (SELECT t.task_type FROM tasks t WHERE t.status = 'pending' ORDER BY t.task_type LIMIT 1)
    UNION ALL
    SELECT (
        SELECT t.task_type FROM tasks t
        WHERE t.status = 'pending' AND t.task_type > types.task_type ORDER BY t.task_type LIMIT 1
    )
    FROM types WHERE types.task_type IS NOT NULL
),
waiting AS (
    SELECT types.task_type, EXISTS (
        SELECT FROM tasks t
        WHERE t.status = 'pending' AND t.task_type = types.task_type
            AND (t.embargo_until < now() - make_interval(secs => %(patience_seconds)s)
                OR (t.embargo_until <= now() AND t.error_code = 'unregistered'))
    ) AS patient
    FROM types
    WHERE types.task_type IS NOT NULL AND EXISTS (
        SELECT FROM tasks t
        WHERE t.status = 'pending' AND t.task_type = types.task_type AND t.embargo_until <= now()
    )
    UNION ALL
    SELECT t.task_type, true FROM tasks t
    WHERE t.status = 'running' AND t.lease_until < now() - make_interval(secs => %(patience_seconds)s)
),
by_type AS (
    SELECT task_type, bool_or(patient) AS patient FROM waiting
    WHERE task_type <> ALL (%(task_types)s::text[]) GROUP BY task_type
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
