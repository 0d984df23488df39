-- Ask the server to send this worker's echo back through LISTEN.
-- Parameters: channel, word.
SELECT pg_notify(%(channel)s, %(word)s)
