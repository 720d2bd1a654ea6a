-- ?1 older than, in ms; ?2 limit. A held key is kept.
DELETE FROM postrider_idempotency
WHERE rowid IN (
    SELECT rowid FROM postrider_idempotency
    WHERE updated_at < (SELECT now FROM postrider_clock) - ?1
      AND (status <> 'PROCESSING' OR lock_until <= (SELECT now FROM postrider_clock))
    ORDER BY updated_at LIMIT ?2 + 0)
