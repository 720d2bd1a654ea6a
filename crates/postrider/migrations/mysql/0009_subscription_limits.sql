-- What an operator allows a consumer, for each of its subscriptions; NULL: as its lane says.
-- MySQL has no ADD … IF NOT EXISTS, and a migration that was interrupted runs again.
SET @postrider_change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'postrider_subscription' AND column_name = 'rate_per_second'),
    'DO 0',
    'ALTER TABLE postrider_subscription ADD COLUMN rate_per_second INT NULL, ADD COLUMN timeout_seconds INT NULL, ADD COLUMN max_attempts INT NULL');
PREPARE postrider_change FROM @postrider_change;
EXECUTE postrider_change;
DEALLOCATE PREPARE postrider_change;
