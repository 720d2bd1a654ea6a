-- Writes the only delivery of an event that was just stored. ? event seq, ? lane, ? shard, ? place, ? key, ? delay in ms, or
-- ? due at, else now; ? attempts at most.
INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at, max_attempts)
VALUES (?, ?, ?, ?, ?, coalesce(UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, ?, UTC_TIMESTAMP(6)), ?)
