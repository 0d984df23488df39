-- What is kept of each experiment's job beside what its runs say. Runs may have been pruned: the kept may know more.
SELECT *
FROM (
    SELECT coalesce(runs.experiment_id, state.experiment_id) AS experiment_id, coalesce(runs.job, state.job) AS job,
        coalesce(runs.runs, 0) AS counted, runs.succeeded_at AS last_success, runs.failed_at AS last_failure,
        state.runs, state.succeeded_at, state.failed_at
    FROM (
        SELECT experiment_id, job, count(*) AS runs, max(started_at) FILTER (WHERE status = 'success') AS succeeded_at,
            max(finished_at) FILTER (WHERE status <> 'success') AS failed_at
        FROM job_runs WHERE status IN ('success', 'failed', 'lost')
        GROUP BY experiment_id, job
    ) AS runs
    FULL JOIN job_states state ON state.experiment_id = runs.experiment_id AND state.job = runs.job
) AS both_sides
WHERE counted > coalesce(runs, 0)
    OR last_success > coalesce(succeeded_at, '-infinity')
    OR last_failure > coalesce(failed_at, '-infinity')
