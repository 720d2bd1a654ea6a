-- What the story of a business key reads, and the keys that a person lets go on.
-- MySQL has no ADD … IF NOT EXISTS, and a migration that was interrupted runs again.

-- Of a dead delivery: since when the later deliveries of its key go on without it. NULL: they wait behind it, as its lane says.
SET @postrider_change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'postrider_delivery' AND column_name = 'skipped_at'),
    'DO 0', 'ALTER TABLE postrider_delivery ADD COLUMN skipped_at DATETIME(6)');
PREPARE postrider_change FROM @postrider_change;
EXECUTE postrider_change;

-- A business key, whatever its scope.
SET @postrider_change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'postrider_idempotency' AND index_name = 'postrider_idempotency_key'),
    'DO 0', 'ALTER TABLE postrider_idempotency ADD KEY postrider_idempotency_key (`key`)');
PREPARE postrider_change FROM @postrider_change;
EXECUTE postrider_change;
DEALLOCATE PREPARE postrider_change;
