-- Which of our finishes are already in the table, after a connection broke while one was being committed.
-- The attempt number is given out once, so a row that shows ours and no longer runs was moved by us, unless another
-- worker noted that attempt as lost when it set the task aside as a crash loop. A row that shows a later attempt may
-- have been claimed since; then the row of our attempt tells, which only its holder writes as not lost.
-- Parameters: ids, attempts.
SELECT ours.id, ours.attempt
FROM unnest(%(ids)s::text[], %(attempts)s::int[]) AS ours (id, attempt)
JOIN tasks t ON t.id = ours.id
LEFT JOIN task_attempts a ON a.task_id = ours.id AND a.attempt = ours.attempt
WHERE (t.attempt = ours.attempt AND t.status <> 'running' AND coalesce(a.outcome, '') <> 'lost')
    OR a.outcome <> 'lost'
