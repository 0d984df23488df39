-- The pending task that holds a dedupe key.
-- Index: tasks_one_pending_per_dedupe_key.
-- Parameters: dedupe_key.
SELECT t.id FROM tasks t WHERE t.dedupe_key = %(dedupe_key)s AND t.status = 'pending'
