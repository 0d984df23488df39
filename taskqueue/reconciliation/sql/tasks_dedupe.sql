-- Pending tasks with a dedupe key that a newer pending one holds too.
SELECT id, status, attempt, dedupe_key, keeper
FROM (
    SELECT id, status, attempt, dedupe_key, first_value(id) OVER newest AS keeper, row_number() OVER newest AS place
    FROM tasks
    WHERE status = 'pending' AND dedupe_key IS NOT NULL
    WINDOW newest AS (PARTITION BY dedupe_key ORDER BY created_at DESC, id DESC)
) AS held
WHERE place > 1
