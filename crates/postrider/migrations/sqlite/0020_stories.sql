-- What the story of a business key reads, and the keys that a person lets go on.

-- Of a dead delivery: since when the later deliveries of its key go on without it. NULL: they wait behind it, as its lane says.
ALTER TABLE postrider_delivery ADD COLUMN skipped_at INTEGER
    CONSTRAINT skipped_at_is_milliseconds_since_1970_utc CHECK (typeof(skipped_at) IN ('integer', 'null'));

-- A business key, whatever its scope.
CREATE INDEX postrider_idempotency_key ON postrider_idempotency (key);
