-- What the product checks about its own promises, and the facts that it needs for that.

-- How often an event came to a consumer again after its effect, and the inbox stopped it. Most events have no row.
CREATE TABLE postrider_repeat (
    consumer    varchar(128) COLLATE "C" NOT NULL,
    event_id    varchar(64) COLLATE "C" NOT NULL,
    repeats     integer NOT NULL,
    repeated_at timestamptz NOT NULL,
    PRIMARY KEY (consumer, event_id)
);
CREATE INDEX postrider_repeat_at ON postrider_repeat (repeated_at);
CREATE INDEX postrider_repeat_event ON postrider_repeat (event_id);

-- The result of the checks, one row for each promise and half hour since 1970. The row of the current half hour has the last result.
CREATE TABLE postrider_promise (
    promise    varchar(32) COLLATE "C" NOT NULL,
    half_hour  bigint NOT NULL,
    -- Whether it held throughout the half hour, and whether events waited so that it held.
    kept       boolean NOT NULL,
    strained   boolean NOT NULL,
    -- JSON: the last result.
    result     text NOT NULL,
    checked_at timestamptz NOT NULL,
    PRIMARY KEY (promise, half_hour)
);

-- Whether the attempts of a lane are kept. An event of a lane without history leaves no trace once it is done.
ALTER TABLE postrider_lane ADD COLUMN history boolean NOT NULL DEFAULT true;
