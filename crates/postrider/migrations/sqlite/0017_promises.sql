-- What the product checks about its own promises, and the facts that it needs for that.

-- How often an event came to a consumer again after its effect, and the inbox stopped it. Most events have no row.
CREATE TABLE postrider_repeat (
    consumer    TEXT NOT NULL,
    event_id    TEXT NOT NULL,
    repeats     INTEGER NOT NULL,
    repeated_at INTEGER NOT NULL
                CONSTRAINT repeated_at_is_milliseconds_since_1970_utc CHECK (typeof(repeated_at) = 'integer'),
    PRIMARY KEY (consumer, event_id)
) WITHOUT ROWID;
CREATE INDEX postrider_repeat_at ON postrider_repeat (repeated_at);
CREATE INDEX postrider_repeat_event ON postrider_repeat (event_id);

-- The result of the checks, one row for each promise and half hour since 1970. The row of the current half hour has the last result.
CREATE TABLE postrider_promise (
    promise    TEXT NOT NULL,
    half_hour  INTEGER NOT NULL,
    -- Whether it held throughout the half hour, and whether events waited so that it held.
    kept       INTEGER NOT NULL CONSTRAINT kept_is_0_or_1 CHECK (kept IN (0, 1)),
    strained   INTEGER NOT NULL CONSTRAINT strained_is_0_or_1 CHECK (strained IN (0, 1)),
    -- JSON: the last result.
    result     TEXT NOT NULL,
    checked_at INTEGER NOT NULL
               CONSTRAINT checked_at_is_milliseconds_since_1970_utc CHECK (typeof(checked_at) = 'integer'),
    PRIMARY KEY (promise, half_hour)
) WITHOUT ROWID;

-- Whether the attempts of a lane are kept. An event of a lane without history leaves no trace once it is done.
ALTER TABLE postrider_lane ADD COLUMN history INTEGER NOT NULL DEFAULT 1 CONSTRAINT history_is_0_or_1 CHECK (history IN (0, 1));
