-- A redrive is a plan: which events, in which steps, and what came of each.
-- progress is JSON: what came of the redriven events, and the steps. gate_since: since when the gate after the current step
-- waits. look_at: when a worker looks at it next; NULL of one that has ended: nothing is left to do. The filter may name a
-- thousand events.
-- MySQL has no ADD … IF NOT EXISTS, and a migration that was interrupted runs again.
SET @postrider_change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'postrider_operation' AND column_name = 'look_at'),
    'DO 0', 'ALTER TABLE postrider_operation MODIFY filter MEDIUMTEXT NOT NULL, ADD COLUMN progress MEDIUMTEXT, ADD COLUMN gate_since DATETIME(6), ADD COLUMN look_at DATETIME(6)');
PREPARE postrider_change FROM @postrider_change;
EXECUTE postrider_change;
DEALLOCATE PREPARE postrider_change;

CREATE TABLE IF NOT EXISTS postrider_operation_item (
    operation BIGINT NOT NULL,
    event_seq BIGINT NOT NULL,
    -- The event may be pruned before its operation.
    event_id  VARCHAR(64) NOT NULL,
    step      INT NOT NULL DEFAULT 0,
    -- 0 planned, 1 open, 2 delivered, 3 failed again, 4 skipped, 5 refused.
    outcome   SMALLINT NOT NULL,
    -- The rule that skipped or refused it.
    rule      VARCHAR(32),
    -- JSON: the consumers whose first attempts count, with the number of the last attempt before the redrive.
    watched   MEDIUMTEXT,
    PRIMARY KEY (operation, event_seq),
    -- What is planned or open, in the order of events.
    KEY postrider_operation_item_outcome (operation, outcome, event_seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
