-- Recorded moves that the lifecycle does not have. A record without a change of state (resubmit, for one) is none.
-- Parameters: events, sources, targets (arrays of one length: the table of moves).
SELECT id, task_id, event, from_status, to_status
FROM task_transitions h
WHERE h.from_status <> h.to_status
    AND NOT EXISTS (
        SELECT FROM unnest(%(events)s::text[], %(sources)s::text[], %(targets)s::text[]) AS move (event, source, target)
        WHERE move.event = h.event AND move.source = h.from_status AND move.target = h.to_status
    )
