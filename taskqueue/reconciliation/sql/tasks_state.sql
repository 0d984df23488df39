-- Tasks whose columns do not fit their status: an undeclared one, a lease outside of running, an end time outside of the
-- final states. CHECKs keep these out, unless they were dropped or a restore left them out; so all rows are read.
-- Parameters: declared, final.
SELECT id, status, lease_until, worker_id, finished_at, updated_at
FROM tasks
WHERE status <> ALL (%(declared)s::text[])
    OR (status = 'running') <> (lease_until IS NOT NULL)
    OR (status = 'running') <> (worker_id IS NOT NULL)
    OR (status = ANY (%(final)s::text[])) <> (finished_at IS NOT NULL)
