-- Committed experiments with what the schedule of each job needs to know; three rows an experiment.
-- Indexes: experiments_committed, job_states_pkey, draws_pending.
SELECT e.id, e.experiment_type, e.state, e.start_date, e.end_date, e.enable_autofail, e.autofail_window,
    greatest(e.created_at, e.updated_at) AS changed_at, kinds.job, s.succeeded_at, oldest.created_at AS oldest_pending,
    now() AS now
FROM experiments e
CROSS JOIN (VALUES ('snapshot'), ('dwh_pull'), ('autofail')) AS kinds (job)
LEFT JOIN job_states s ON s.experiment_id = e.id AND s.job = kinds.job
LEFT JOIN LATERAL (
    SELECT d.created_at FROM draws d
    WHERE d.experiment_id = e.id AND d.outcome IS NULL AND kinds.job <> 'snapshot'
        AND d.created_at BETWEEN '0001-01-02' AND '9999-12-30'
    ORDER BY d.created_at LIMIT 1
) AS oldest ON true
WHERE e.state = 'committed'
ORDER BY e.id
