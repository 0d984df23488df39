-- Write how runs ended: running -> success, failed or released.
-- Guard: the run is unfinished. One that somebody else closed stays as it is (gone); one that was closed like this by a
-- statement whose answer never came counts as closed. One in the middle of a write, which holds its row, is to be closed
-- later (held).
-- Index: the primary key. = ANY (ARRAY[...]) is = in a form that only a lookup of the key can serve.
-- Parameters: ids, statuses, messages, counts (JSON texts).
WITH given AS MATERIALIZED (
    SELECT given.id, given.status, given.message, given.counts, r.status AS was
    FROM unnest(%(ids)s::text[], %(statuses)s::text[], %(messages)s::text[], %(counts)s::text[])
        AS given (id, status, message, counts)
    LEFT JOIN job_runs r ON r.id = ANY (ARRAY[given.id])
),
free AS MATERIALIZED (
    SELECT r.id, given.status, given.message, given.counts
    FROM given JOIN job_runs r ON r.id = ANY (ARRAY[given.id]) AND coalesce(r.status, '') = 'running'
    FOR NO KEY UPDATE OF r SKIP LOCKED
),
closed AS (
    UPDATE job_runs r
    SET status = free.status, finished_at = clock_timestamp(), lease_until = NULL, message = free.message,
        counts = free.counts::jsonb
    FROM free
    WHERE r.id = ANY (ARRAY[free.id])
    RETURNING r.id
)
SELECT given.id, CASE
        WHEN closed.id IS NOT NULL OR given.was = given.status THEN 'closed'
        WHEN given.was = 'running' THEN 'held'
        ELSE 'gone'
    END
FROM given LEFT JOIN closed ON closed.id = given.id
