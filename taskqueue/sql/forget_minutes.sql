-- Delete a small batch of old counts: single minutes after two days, quarters of an hour after eight.
-- Guard: rows that another worker deletes at the same moment are passed over.
-- Index: the primary key, from each span's oldest row on.
WITH old AS MATERIALIZED (
    SELECT q.ctid FROM queue_minutes q
    JOIN (VALUES (1::smallint, interval '2 days'), (15::smallint, interval '8 days')) AS kept (span, length)
        ON q.span = kept.span AND q.begins_at < now() - kept.length
    LIMIT 2000
    FOR UPDATE OF q SKIP LOCKED
)
DELETE FROM queue_minutes WHERE ctid = ANY (ARRAY(SELECT ctid FROM old))
