-- Snapshots that cannot be, and those that were asked for long ago and never made.
-- Indexes: snapshots_pending for the second; the first reads all rows but not their data.
-- Parameters: overdue_seconds.
SELECT *
FROM (
    SELECT s.id, s.experiment_id, s.status, s.created_at, s.data IS NOT NULL AS has_data, s.message IS NOT NULL AS has_message,
        e.state,
        s.status NOT IN ('pending', 'success', 'failed') OR (s.status = 'success') <> (s.data IS NOT NULL)
            OR (s.status = 'failed' AND s.message IS NULL) AS odd,
        s.status = 'pending' AND s.created_at < now() - make_interval(secs => %(overdue_seconds)s)
            AND e.state IN ('committed', 'abandoned') AS waiting
    FROM snapshots s
    LEFT JOIN experiments e ON e.id = s.experiment_id
) AS judged
WHERE odd OR waiting
