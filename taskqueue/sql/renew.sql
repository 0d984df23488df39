-- Move leases on: running -> running, by the holder.
-- Guard: the fence. An id that does not come back is a claim that was lost.
-- No lease column is in an index, so this stays on the row's page (HOT).
-- Index: the primary key. The state stands in coalesce() so that no plan walks all running tasks for each of ours.
-- Parameters: ids, attempts, lease_seconds.
UPDATE tasks t
SET lease_until = now() + make_interval(secs => %(lease_seconds)s)
FROM unnest(%(ids)s::text[], %(attempts)s::int[]) AS held (id, attempt)
WHERE t.id = held.id AND t.attempt = held.attempt AND coalesce(t.status, '') = 'running'
RETURNING t.id
