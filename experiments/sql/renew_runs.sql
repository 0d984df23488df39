-- Move leases of unfinished runs on. A run that does not come back was closed by somebody else.
-- One that comes back unmoved is in the middle of a write, which holds its row: it is passed over, since one long write
-- must not let the leases of all others run out, and nobody can close a run whose row is held.
-- Index: the primary key.
-- Parameters: ids, lease_seconds.
WITH ours AS MATERIALIZED (
    SELECT r.id FROM job_runs r WHERE r.id = ANY (%(ids)s::text[]) AND coalesce(r.status, '') = 'running'
),
free AS MATERIALIZED (
    SELECT r.id FROM ours JOIN job_runs r ON r.id = ANY (ARRAY[ours.id]) AND coalesce(r.status, '') = 'running'
    FOR NO KEY UPDATE OF r SKIP LOCKED
),
moved AS (
    UPDATE job_runs r SET lease_until = now() + make_interval(secs => %(lease_seconds)s)
    FROM free
    WHERE r.id = ANY (ARRAY[free.id])
    RETURNING r.id
)
SELECT ours.id, moved.id IS NOT NULL AS moved FROM ours LEFT JOIN moved ON moved.id = ours.id
