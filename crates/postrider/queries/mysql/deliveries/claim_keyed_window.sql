-- The oldest due deliveries with a key that are not leased. ? lane, ? shards as a set of 64 bits, ? window. Locks nothing.
SELECT id, event_key, event_seq, shard
FROM postrider_delivery FORCE INDEX (postrider_delivery_due)
WHERE lane = ? AND place = 1
  AND due_at <= UTC_TIMESTAMP(6) AND (lock_until IS NULL OR lock_until <= UTC_TIMESTAMP(6))
  AND (? >> shard) & 1
ORDER BY due_at, id
LIMIT ?
