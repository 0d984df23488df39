-- Which of our finishes are already in the table, after a connection broke while one was being committed.
-- The attempt number is given out once, so a row that shows ours and no longer runs was moved by us, unless another
-- worker noted that attempt as lost when it set the task aside as a crash loop. A row that shows a later attempt may
-- have been claimed since; then the row of our attempt tells, which only its holder writes as not lost.
-- = ANY (ARRAY[...]) is = in a form that only a lookup of the key can serve: while statistics call a full table empty,
-- a join on = would rather read a whole index.
-- Parameters: ids, attempts.
SELECT ours.id, ours.attempt
FROM unnest(%(ids)s::text[], %(attempts)s::int[]) AS ours (id, attempt)
JOIN tasks t ON t.id = ANY (ARRAY[ours.id])
LEFT JOIN task_attempts a ON a.task_id = ANY (ARRAY[ours.id]) AND a.attempt = ours.attempt
WHERE (t.attempt = ours.attempt AND t.status <> 'running' AND coalesce(a.outcome, '') <> 'lost')
    OR a.outcome <> 'lost'
