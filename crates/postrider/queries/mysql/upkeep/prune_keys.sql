-- ? older than, in ms; ? limit. A held key is kept.
DELETE k
FROM (
    SELECT scope, `key` FROM postrider_idempotency FORCE INDEX (postrider_idempotency_updated)
    WHERE updated_at < UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND
      AND (status <> 'PROCESSING' OR lock_until <= UTC_TIMESTAMP(6))
    ORDER BY updated_at LIMIT ?
    FOR UPDATE SKIP LOCKED
) old
STRAIGHT_JOIN postrider_idempotency k FORCE INDEX (PRIMARY) ON k.scope = old.scope AND k.`key` = old.`key`
