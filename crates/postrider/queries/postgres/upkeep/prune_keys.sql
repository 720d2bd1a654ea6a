-- $1 older than, in ms; $2 limit. A held key is kept.
DELETE FROM postrider_idempotency
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM postrider_idempotency
    WHERE updated_at < now() - $1 * interval '1 ms' AND (status <> 'PROCESSING' OR lock_until <= now())
    ORDER BY updated_at LIMIT $2
    FOR UPDATE SKIP LOCKED))
