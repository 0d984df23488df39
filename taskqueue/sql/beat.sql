-- Write what this worker is and holds; the row appears with the first beat.
-- Parameters: id, host, pid, version, draining, slots, running, stuck, listen_state, queues (NULL: all), task_types.
INSERT INTO workers (id, host, pid, version, draining, slots, running, stuck, listen_state, queues, task_types)
VALUES (%(id)s, %(host)s, %(pid)s, %(version)s, %(draining)s, %(slots)s, %(running)s, %(stuck)s, %(listen_state)s,
    %(queues)s::text[], %(task_types)s::text[])
ON CONFLICT (id) DO UPDATE
SET beat_at = now(), draining = excluded.draining, running = excluded.running, stuck = excluded.stuck,
    listen_state = excluded.listen_state,
    listen_since = CASE WHEN workers.listen_state = excluded.listen_state THEN workers.listen_since ELSE now() END
