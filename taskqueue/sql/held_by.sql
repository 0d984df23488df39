-- The claims that the table says a worker holds.
-- Index: tasks_unfinished (running rows).
-- Parameters: worker_id.
SELECT t.id, t.attempt FROM tasks t WHERE t.status = 'running' AND t.worker_id = %(worker_id)s
