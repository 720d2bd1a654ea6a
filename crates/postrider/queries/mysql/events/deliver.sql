-- Inserts the only delivery of an event that was just stored. ? event seq, ? lane, ? shard, ? place, ? key, ? delay in ms, or ?
-- due at, else now.
INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
VALUES (?, ?, ?, ?, ?, coalesce(UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, ?, UTC_TIMESTAMP(6)))
