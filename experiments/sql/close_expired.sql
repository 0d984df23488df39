-- Close the runs of lost workers: running -> lost.
-- Guard: the lease has expired and nobody holds the row, which whoever is in the middle of a write does.
-- What this worker itself holds is not lost, even when it was stopped so long that its leases ran out: it renews them.
-- Index: job_runs_one_unfinished (there are never more unfinished runs than all workers have slots).
-- Parameters: worker_id, message.
WITH expired AS MATERIALIZED (
    SELECT r.id FROM job_runs r
    WHERE r.status = 'running' AND r.lease_until < now() AND r.worker_id <> %(worker_id)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE job_runs r
SET status = 'lost', finished_at = clock_timestamp(), lease_until = NULL, message = %(message)s
FROM expired
WHERE r.id = ANY (ARRAY[expired.id])
RETURNING r.id, r.experiment_id, r.job, r.worker_id
