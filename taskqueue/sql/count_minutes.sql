-- Write the totals of some spans and lanes as one worker counted them; whole totals, so that a repetition changes nothing.
-- Guard: the key has the worker's id, so no worker changes another's row. The order of the key keeps locks in order.
-- Parameters: worker_id, and arrays of one length: spans, begins_at, task_types, queues, succeeded, retried, snoozed,
-- dead, dead_lettered, waited_ms, ran_ms, waits, runs (the last two hold arrays as text).
INSERT INTO queue_minutes (span, begins_at, task_type, queue, worker_id, succeeded, retried, snoozed, dead,
    dead_lettered, waited_ms, ran_ms, waits, runs)
SELECT given.span, given.begins_at, given.task_type, given.queue, %(worker_id)s, given.succeeded, given.retried,
    given.snoozed, given.dead, given.dead_lettered, given.waited_ms, given.ran_ms, given.waits::int[], given.runs::int[]
FROM unnest(
    %(spans)s::smallint[], %(begins_at)s::timestamptz[], %(task_types)s::text[], %(queues)s::text[],
    %(succeeded)s::int[], %(retried)s::int[], %(snoozed)s::int[], %(dead)s::int[], %(dead_lettered)s::int[],
    %(waited_ms)s::bigint[], %(ran_ms)s::bigint[], %(waits)s::text[], %(runs)s::text[]
) AS given (span, begins_at, task_type, queue, succeeded, retried, snoozed, dead, dead_lettered, waited_ms, ran_ms,
    waits, runs)
ON CONFLICT (span, begins_at, task_type, queue, worker_id) DO UPDATE
SET succeeded = excluded.succeeded, retried = excluded.retried, snoozed = excluded.snoozed, dead = excluded.dead,
    dead_lettered = excluded.dead_lettered, waited_ms = excluded.waited_ms, ran_ms = excluded.ran_ms,
    waits = excluded.waits, runs = excluded.runs
