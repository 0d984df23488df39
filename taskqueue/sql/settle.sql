-- Finish attempts that did not succeed, by the holder, for all that wait at once: running -> pending (fail, snooze,
-- release), dead (exhaust) or dead_lettered (discard). Each leaves a row in task_attempts.
-- Guard: the fence. An id that does not come back is a claim that was lost.
-- A task that would return to pending while another pending one holds its dedupe key is dead-lettered as superseded.
-- When that one appears between our look and our write, the unique index refuses the statement; the caller repeats it.
-- Of several that would return here with one key, the newest does.
-- Index: the primary key. The state stands in coalesce() so that no plan walks all running tasks for each of ours.
-- = ANY (ARRAY[...]) is = in a form that only a lookup of the key can serve: while statistics call a full table empty,
-- a join on = would rather read a whole index.
-- Parameters, arrays of one length: ids, attempts, statuses, retries_used, delays (seconds) or embargoes (instants),
-- messages, error_codes, error_classes, tracebacks, outcomes.
WITH held AS MATERIALIZED (
    SELECT t.id, t.attempt, t.worker_id, coalesce(t.started_at, t.updated_at) AS started_at, t.dedupe_key,
        given.status, given.retries_used, given.message, given.error_code, given.error_class,
        given.traceback, given.outcome,
        coalesce(given.embargo, now() + make_interval(secs => given.delay)) AS embargo,
        given.status = 'pending' AND t.dedupe_key IS NOT NULL AND EXISTS (
            SELECT FROM tasks other WHERE other.status = 'pending' AND other.dedupe_key = t.dedupe_key
        ) AS key_taken
    FROM unnest(
        %(ids)s::text[], %(attempts)s::int[], %(statuses)s::text[], %(retries_used)s::int[], %(delays)s::float8[],
        %(embargoes)s::timestamptz[], %(messages)s::text[], %(error_codes)s::text[],
        %(error_classes)s::text[], %(tracebacks)s::text[], %(outcomes)s::text[]
    ) AS given (id, attempt, status, retries_used, delay, embargo, message, error_code, error_class, traceback,
        outcome)
    JOIN tasks t ON t.id = ANY (ARRAY[given.id]) AND t.attempt = given.attempt AND coalesce(t.status, '') = 'running'
    FOR UPDATE OF t
),
judged AS MATERIALIZED (
    SELECT held.*, held.key_taken OR (
            held.status = 'pending' AND held.dedupe_key IS NOT NULL
            AND row_number() OVER (PARTITION BY held.status, held.dedupe_key ORDER BY held.id DESC) > 1
        ) AS superseded
    FROM held
),
noted AS (
    INSERT INTO task_attempts (task_id, attempt, worker_id, started_at, finished_at, outcome, error_code, error_class,
        message, traceback, next_try_at)
    SELECT id, attempt, worker_id, started_at, now(), outcome, error_code, error_class, message, traceback,
        CASE WHEN status = 'pending' AND NOT superseded THEN embargo END
    FROM judged
    ON CONFLICT (task_id, attempt) DO NOTHING
)
UPDATE tasks t
SET status = CASE WHEN judged.superseded THEN 'dead_lettered' ELSE judged.status END,
    retry_count = t.retry_count + judged.retries_used,
    -- A handler that ended by itself does not kill its worker. One that was released, or never ran, shows nothing.
    lost_count = CASE
        WHEN judged.outcome IN ('failed', 'snoozed', 'timeout') AND judged.error_code IS DISTINCT FROM 'unregistered'
            THEN 0
        ELSE t.lost_count
    END,
    embargo_until = CASE WHEN judged.status = 'pending' THEN judged.embargo ELSE t.embargo_until END,
    message = CASE
        WHEN judged.superseded THEN concat_ws(E'\n', 'another pending task holds its dedupe key', judged.message)
        ELSE coalesce(judged.message, t.message)
    END,
    error_code = CASE WHEN judged.superseded THEN 'superseded' ELSE coalesce(judged.error_code, t.error_code) END,
    finished_at = CASE WHEN judged.superseded OR judged.status <> 'pending' THEN now() END,
    worker_id = NULL, lease_until = NULL, updated_at = now()
FROM judged
WHERE t.id = ANY (ARRAY[judged.id])
RETURNING t.id, t.attempt, t.status, judged.superseded
