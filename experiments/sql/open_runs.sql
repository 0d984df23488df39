-- Begin runs: one row each, which is the lock of its experiment. What does not come back was refused.
-- Guard: the experiment is committed and has no unfinished run, and no run of the job ended since somebody saw that it
-- is due (runs_seen: job_states.runs as it was then; NULL: never mind).
-- In the order of the experiments, since whoever meets another's insert of the same one waits for its commit.
-- Index: job_runs_one_unfinished. = ANY (ARRAY[...]) is = in a form that only a lookup of the key can serve.
-- Parameters: ids, experiment_ids, jobs, runs_seen, worker_id, lease_seconds.
INSERT INTO job_runs (id, experiment_id, job, worker_id, lease_until)
SELECT new.id, e.id, new.job, %(worker_id)s, now() + make_interval(secs => %(lease_seconds)s)
FROM unnest(%(ids)s::text[], %(experiment_ids)s::text[], %(jobs)s::text[], %(runs_seen)s::bigint[])
    AS new (id, experiment_id, job, runs_seen)
JOIN experiments e ON e.id = ANY (ARRAY[new.experiment_id]) AND e.state = 'committed'
LEFT JOIN job_states s ON s.experiment_id = ANY (ARRAY[new.experiment_id]) AND s.job = new.job
WHERE new.runs_seen IS NULL OR coalesce(s.runs, 0) = new.runs_seen
ORDER BY e.id
ON CONFLICT (experiment_id) WHERE status = 'running' DO NOTHING
RETURNING id
