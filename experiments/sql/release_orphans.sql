-- Give back runs that were opened while the connection broke, so that their worker never heard of them.
-- Guard: the worker is the caller itself, which names those that it knows.
-- Index: job_runs_one_unfinished.
-- Parameters: worker_id, known_ids.
UPDATE job_runs r
SET status = 'released', finished_at = clock_timestamp(), lease_until = NULL
WHERE r.status = 'running' AND r.worker_id = %(worker_id)s AND r.id <> ALL (%(known_ids)s::text[])
