-- Which of our finishes are already in the table, after a connection broke while one was being committed.
-- The attempt number is given out once, so a row that shows ours and no longer runs was moved by us.
-- Parameters: ids, attempts.
SELECT t.id
FROM unnest(%(ids)s::text[], %(attempts)s::int[]) AS ours (id, attempt)
JOIN tasks t ON t.id = ours.id AND t.attempt = ours.attempt AND t.status <> 'running'
