-- Say that this worker has ended, so that nobody takes its silence for a crash.
-- Parameters: id.
UPDATE workers SET stopped_at = now(), beat_at = now(), running = 0, listen_state = 'off' WHERE id = %(id)s
