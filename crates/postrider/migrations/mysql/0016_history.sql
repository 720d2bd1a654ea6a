-- The attempts of one consumer by time.
-- MySQL has no ADD … IF NOT EXISTS, and a migration that was interrupted runs again.
SET @postrider_change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'postrider_consumption' AND index_name = 'postrider_consumption_time'),
    'DO 0', 'ALTER TABLE postrider_consumption ADD KEY postrider_consumption_time (consumer, consumed_at, event_seq, attempt)');
PREPARE postrider_change FROM @postrider_change;
EXECUTE postrider_change;
DEALLOCATE PREPARE postrider_change;
