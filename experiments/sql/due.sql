-- Which jobs are due and fit the free slots, oldest first, and the nearest instant after now, before the horizon, at
-- which another one is due. schedule.py says the same for one job; a property test holds the two equal.
-- An experiment that has an unfinished run, whoever's, has nothing due. One run for each experiment; for each datasource
-- at most datasource_slots, of which those in held_datasources are taken.
-- Draws are probed for the oldest of an experiment, only where one could make a job due before the horizon. Their
-- created_at is anybody's, so nothing is added to one before it was compared: the sum might leave the calendar.
-- Elapsed time only (hours, seconds): a day of a session's time zone may have 23 hours.
-- Indexes: experiments_committed, job_states_pkey (as a whole where statistics are right, else one by one),
-- draws_pending, snapshots_pending, job_runs_one_unfinished.
-- Parameters: now (NULL: the database's clock), horizon_seconds, jobs, snapshot_seconds, pull_seconds, slots,
-- datasource_slots, held_datasources.
WITH clock AS MATERIALIZED (
    SELECT given.now, given.now + make_interval(secs => %(horizon_seconds)s) AS horizon
    FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS given
),
requested AS MATERIALIZED (
    SELECT experiment_id, max(created_at) AS at FROM snapshots WHERE status = 'pending' GROUP BY experiment_id
),
committed AS MATERIALIZED (
    SELECT e.id, e.datasource_id, e.experiment_type, e.start_date - interval '24 hours' AS begins, e.end_date,
        e.enable_autofail, make_interval(hours => e.autofail_window) AS autofail_window, requested.at AS requested_at
    FROM experiments e
    LEFT JOIN requested ON requested.experiment_id = e.id
    WHERE e.state = 'committed'
        AND NOT EXISTS (SELECT FROM job_runs r WHERE r.experiment_id = e.id AND r.status = 'running')
),
kinds (job, every, longest_backoff) AS NOT MATERIALIZED (
    VALUES
        ('snapshot', make_interval(secs => %(snapshot_seconds)s), make_interval(secs => %(snapshot_seconds)s)),
        ('dwh_pull', make_interval(secs => %(pull_seconds)s), make_interval(secs => %(pull_seconds)s)),
        ('autofail', NULL, interval '1 hour')
),
history AS NOT MATERIALIZED (
    SELECT s.experiment_id, s.job, s.runs, s.failed_at, s.succeeded_at + kinds.every AS again_at,
        CASE WHEN s.failures > 0 THEN s.failed_at
            + least(interval '5 minutes' * (1 << least(s.failures - 1, 20)), kinds.longest_backoff)
        END AS retry_at
    FROM job_states s JOIN kinds ON kinds.job = s.job
),
planned AS (
    SELECT e.id, e.datasource_id, 'snapshot' AS job, h.runs,
        CASE
            WHEN e.requested_at IS NULL THEN greatest(e.begins, coalesce(h.retry_at, h.again_at, e.begins))
            WHEN h.retry_at IS NULL OR e.requested_at > h.failed_at THEN e.requested_at
            ELSE h.retry_at
        END AS at,
        CASE WHEN e.requested_at IS NULL THEN e.end_date + interval '24 hours' ELSE 'infinity' END AS ends
    FROM committed e
    LEFT JOIN history h ON h.experiment_id = e.id AND h.job = 'snapshot'
    UNION ALL
    SELECT e.id, e.datasource_id, 'dwh_pull', h.runs,
        greatest(oldest.created_at, coalesce(h.retry_at, h.again_at, oldest.created_at)),
        e.end_date + interval '192 hours'
    FROM clock
    CROSS JOIN committed e
    LEFT JOIN history h ON h.experiment_id = e.id AND h.job = 'dwh_pull'
    CROSS JOIN LATERAL (
        SELECT d.created_at FROM draws d
        WHERE d.experiment_id = e.id AND d.outcome IS NULL AND d.created_at <= clock.horizon
        ORDER BY d.created_at LIMIT 1
    ) AS oldest
    WHERE e.experiment_type = 'mab_online_dwh' AND e.end_date >= clock.now - interval '192 hours'
        AND coalesce(h.retry_at, h.again_at, clock.now) <= clock.horizon
    UNION ALL
    SELECT e.id, e.datasource_id, 'autofail', h.runs,
        greatest(oldest.created_at + e.autofail_window, h.retry_at), 'infinity'
    FROM clock
    CROSS JOIN committed e
    LEFT JOIN history h ON h.experiment_id = e.id AND h.job = 'autofail'
    CROSS JOIN LATERAL (
        SELECT d.created_at FROM draws d
        WHERE d.experiment_id = e.id AND d.outcome IS NULL AND d.created_at <= clock.horizon - e.autofail_window
        ORDER BY d.created_at LIMIT 1
    ) AS oldest
    WHERE e.enable_autofail AND e.experiment_type IN ('mab_online', 'cmab_online')
        AND coalesce(h.retry_at, clock.now) <= clock.horizon
),
near AS MATERIALIZED (
    SELECT planned.*, planned.at <= clock.now AS is_due
    FROM clock
    JOIN planned ON planned.at <= least(clock.horizon, planned.ends) AND clock.now <= planned.ends
    WHERE planned.job = ANY (%(jobs)s::text[])
),
firsts AS (
    SELECT DISTINCT ON (id) * FROM near WHERE is_due ORDER BY id, at, job
),
ranked AS (
    SELECT firsts.*, row_number() OVER (PARTITION BY datasource_id ORDER BY at, id) AS place FROM firsts
),
picked AS (
    SELECT * FROM ranked
    WHERE place <= %(datasource_slots)s
        - (SELECT count(*) FROM unnest(%(held_datasources)s::text[]) AS held (id) WHERE held.id = datasource_id)
    ORDER BY at, id
    LIMIT %(slots)s
)
SELECT picked.id AS experiment_id, picked.job, picked.datasource_id, coalesce(picked.runs, 0) AS runs,
    greatest(picked.at, timestamptz '1970-01-01 00:00:00+00') AS due_at, clock.now,
    (SELECT count(*) FROM near WHERE is_due) AS due,
    (SELECT min(at) FROM near WHERE NOT is_due) AS next_at
FROM clock
LEFT JOIN picked ON true
ORDER BY picked.at, picked.id
