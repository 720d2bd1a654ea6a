-- A redrive is a plan: which events, in which steps, and what came of each.
-- JSON: what came of the redriven events, and the steps.
ALTER TABLE postrider_operation ADD COLUMN progress TEXT;
-- Since when the gate after the current step waits.
ALTER TABLE postrider_operation ADD COLUMN gate_since INTEGER;
-- When a worker looks at it next. NULL of one that has ended: nothing is left to do.
ALTER TABLE postrider_operation ADD COLUMN look_at INTEGER;

CREATE TABLE postrider_operation_item (
    operation INTEGER NOT NULL,
    event_seq INTEGER NOT NULL,
    -- The event may be pruned before its operation.
    event_id  TEXT NOT NULL,
    step      INTEGER NOT NULL DEFAULT 0,
    -- 0 planned, 1 open, 2 delivered, 3 failed again, 4 skipped, 5 refused.
    outcome   INTEGER NOT NULL,
    -- The rule that skipped or refused it.
    rule      TEXT,
    -- JSON: the consumers whose first attempts count, with the number of the last attempt before the redrive.
    watched   TEXT,
    PRIMARY KEY (operation, event_seq)
) WITHOUT ROWID;

-- What is planned or open, in the order of events.
CREATE INDEX postrider_operation_item_outcome ON postrider_operation_item (operation, outcome, event_seq);
