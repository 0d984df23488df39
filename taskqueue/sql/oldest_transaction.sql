-- The transaction that has been open longest in this database, when it is older than the given age. While it lives,
-- VACUUM may not remove what died since it began, and every claim walks over dead rows.
-- Another role's session shows itself only to a superuser or a member of pg_read_all_stats; then its names are missing.
-- Parameters: seconds.
SELECT a.pid, coalesce(a.usename, '') AS role, coalesce(a.application_name, '') AS application,
    coalesce(a.state, '') AS state, extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS age_seconds,
    a.xact_start::text AS began
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
    AND a.xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
ORDER BY a.xact_start
LIMIT 1
