-- Unfinished tasks whose counts cannot be: more retries than they may have, less than none, or a fence at its end, so
-- that no claim can take them any more.
-- Indexes: tasks_pending, tasks_unfinished.
SELECT id, status, retry_count, max_retries, attempt, lost_count
FROM tasks
WHERE status IN ('pending', 'running')
    AND (retry_count > max_retries OR retry_count < 0 OR max_retries < 0 OR attempt < 0 OR lost_count < 0
        OR attempt = 2147483647)
