-- Makes deliveries due now, or inserts them. ?1 [{seq, lane, target, shard}] as JSON. None of them is leased. Their attempts begin anew,
-- behind those in the history.
INSERT INTO postrider_delivery AS d (event_seq, lane, target, shard, event_key, due_at, recorded_before)
SELECT e.seq, json_extract(i.value, '$.lane'), json_extract(i.value, '$.target'), json_extract(i.value, '$.shard'), e.event_key,
       (SELECT now FROM postrider_clock),
       (SELECT coalesce(max(c.attempt), 0) FROM postrider_consumption c
        WHERE c.event_seq = e.seq
          AND c.consumer = coalesce(nullif(json_extract(i.value, '$.target'), ''), json_extract(i.value, '$.lane')))
FROM json_each(?1) i
CROSS JOIN postrider_event e ON e.seq = json_extract(i.value, '$.seq')
WHERE true
ON CONFLICT (event_seq, lane, target) DO UPDATE
    SET due_at = excluded.due_at, attempts = 0, recorded_before = excluded.recorded_before, dead = false, held = false,
        skipped_at = NULL, token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
