-- Runs that cannot be, or are not closed though their lease ran out long ago, or that run beside another one.
-- Parameters: overdue_seconds.
SELECT *
FROM (
    SELECT r.id, r.experiment_id, r.job, r.status, r.started_at, r.finished_at, r.lease_until, r.worker_id,
        r.status NOT IN ('running', 'success', 'failed', 'lost', 'released') AS undeclared,
        (r.status = 'running') <> (r.lease_until IS NOT NULL) OR (r.status = 'running') = (r.finished_at IS NOT NULL)
            OR (r.status = 'running' AND r.worker_id IS NULL) AS odd_columns,
        coalesce(r.status = 'running' AND r.lease_until < now() - make_interval(secs => %(overdue_seconds)s), false)
            AS overdue,
        r.status = 'running' AND row_number() OVER (
            PARTITION BY r.experiment_id, r.status ORDER BY r.lease_until DESC NULLS LAST, r.id DESC
        ) > 1 AS beside_another
    FROM job_runs r
) AS judged
WHERE undeclared OR odd_columns OR overdue OR beside_another
