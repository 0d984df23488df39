-- Move leases on: running -> running, by the holder.
-- Guard: the fence. An id that does not come back is a claim that was lost. One that comes back unmoved is locked by
-- somebody and passed over: one transaction that holds one row must not let the leases of all others run out.
-- No lease column is in an index, so this stays on the row's page (HOT).
-- Index: the primary key. The state stands in coalesce() so that no plan walks all running tasks for each of ours.
-- = ANY (ARRAY[...]) is = in a form that only a lookup of the key can serve: while statistics call a full table empty,
-- a join on = would rather read a whole index.
-- Parameters: ids, attempts, lease_seconds.
WITH ours AS MATERIALIZED (
    SELECT t.id, t.attempt
    FROM unnest(%(ids)s::text[], %(attempts)s::int[]) AS held (id, attempt)
    JOIN tasks t ON t.id = ANY (ARRAY[held.id]) AND t.attempt = held.attempt AND coalesce(t.status, '') = 'running'
),
free AS MATERIALIZED (
    SELECT t.id
    FROM ours
    JOIN tasks t ON t.id = ANY (ARRAY[ours.id]) AND t.attempt = ours.attempt AND coalesce(t.status, '') = 'running'
    FOR NO KEY UPDATE OF t SKIP LOCKED
),
moved AS (
    UPDATE tasks t SET lease_until = now() + make_interval(secs => %(lease_seconds)s)
    FROM free
    WHERE t.id = ANY (ARRAY[free.id])
    RETURNING t.id
)
SELECT ours.id, ours.attempt, moved.id IS NOT NULL AS moved
FROM ours LEFT JOIN moved ON moved.id = ours.id
