-- Makes deliveries due now, or inserts them. $1 [{seq, lane, target, shard}] as JSON. Their events are locked, and none of the
-- deliveries is leased. Their attempts begin anew, behind those in the history.
INSERT INTO postrider_delivery AS d (event_seq, lane, target, shard, place, event_key, due_at, recorded_before)
SELECT e.seq, i.lane, i.target, i.shard, CASE WHEN e.event_key IS NULL THEN 0 ELSE 1 END, e.event_key, now(),
    (SELECT coalesce(max(c.attempt), 0) FROM postrider_consumption c
     WHERE c.event_seq = e.seq AND c.consumer = CASE i.target WHEN '' THEN i.lane ELSE i.target END)
FROM json_to_recordset($1::json) AS i (seq bigint, lane text, target text, shard smallint)
JOIN postrider_event e ON e.seq = i.seq
ON CONFLICT (event_seq, lane, target) DO UPDATE
    SET due_at = now(), attempts = 0, recorded_before = excluded.recorded_before, place = excluded.place,
        skipped_at = NULL, token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
