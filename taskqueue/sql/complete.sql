-- Finish tasks that succeeded: running -> success, by the holder, for all that wait at once.
-- Guard: the fence. An id that does not come back is a claim that was lost.
-- Index: the primary key. The state stands in coalesce() so that no plan walks all running tasks for each of ours.
-- = ANY (ARRAY[...]) is = in a form that only a lookup of the key can serve: while statistics call a full table empty,
-- a join on = would rather read a whole index.
-- Parameters: ids, attempts, results (JSON text, or NULL).
UPDATE tasks t
SET status = 'success', result = done.result::jsonb, message = NULL, error_code = NULL, worker_id = NULL,
    lease_until = NULL, finished_at = now(), updated_at = now()
FROM unnest(%(ids)s::text[], %(attempts)s::int[], %(results)s::text[]) AS done (id, attempt, result)
WHERE t.id = ANY (ARRAY[done.id]) AND t.attempt = done.attempt AND coalesce(t.status, '') = 'running'
RETURNING t.id, t.attempt
