-- A redrive is a plan: which events, in which steps, and what came of each.
ALTER TABLE postrider_operation
    -- JSON: what came of the redriven events, and the steps.
    ADD COLUMN progress text,
    -- Since when the gate after the current step waits.
    ADD COLUMN gate_since timestamptz,
    -- When a worker looks at it next. NULL of one that has ended: nothing is left to do.
    ADD COLUMN look_at timestamptz;

CREATE TABLE postrider_operation_item (
    operation bigint NOT NULL,
    event_seq bigint NOT NULL,
    -- The event may be pruned before its operation.
    event_id  varchar(64) COLLATE "C" NOT NULL,
    step      integer NOT NULL DEFAULT 0,
    -- 0 planned, 1 open, 2 delivered, 3 failed again, 4 skipped, 5 refused.
    outcome   smallint NOT NULL,
    -- The rule that skipped or refused it.
    rule      varchar(32),
    -- JSON: the consumers whose first attempts count, with the number of the last attempt before the redrive.
    watched   text,
    PRIMARY KEY (operation, event_seq)
);

-- What is planned or open, in the order of events.
CREATE INDEX postrider_operation_item_outcome ON postrider_operation_item (operation, outcome, event_seq);
