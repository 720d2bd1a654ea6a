-- Bulk operations: what was asked, how far it has come, and who works on it. Progress commits with the work that it counts.
CREATE TABLE postrider_operation (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    -- RUNNING, PAUSED, CANCELLED, DONE.
    state       TEXT NOT NULL,
    -- Both as JSON: which events, and what else was asked.
    filter      TEXT NOT NULL,
    options     TEXT NOT NULL,
    -- As far as somebody has counted.
    total       INTEGER,
    done        INTEGER NOT NULL DEFAULT 0,
    failed      INTEGER NOT NULL DEFAULT 0,
    skipped     INTEGER NOT NULL DEFAULT 0,
    -- Below which event it goes on; it never goes up again, so that nothing is done twice.
    position    INTEGER,
    token       INTEGER,
    lock_owner  TEXT,
    lock_until  INTEGER,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    finished_at INTEGER
);

-- What happened to events in each minute, for charts: counted by the roll-up, in the transaction that writes the status.
CREATE TABLE postrider_figure (
    -- Since 1970, in UTC.
    minute   INTEGER PRIMARY KEY,
    created  INTEGER NOT NULL DEFAULT 0,
    sent     INTEGER NOT NULL DEFAULT 0,
    consumed INTEGER NOT NULL DEFAULT 0,
    failed   INTEGER NOT NULL DEFAULT 0,
    dead     INTEGER NOT NULL DEFAULT 0
);
