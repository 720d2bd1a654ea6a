-- Where events stand, for lists. Why it is kept beside the event, and by whom: docs/decisions/0008-status-kept.md.

-- Something has changed that an event's status may depend on. Written in the transaction that changes it, and removed by the
-- roll-up before it reads: what commits later has a mark of its own.
CREATE TABLE postrider_mark (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    event_seq INTEGER NOT NULL
);

-- One row per event, made and kept by the roll-up. Only redrives, redriven_at and expired_at are facts, written by whoever
-- redrives or expires; everything else can be computed again. Times are milliseconds since 1970 in UTC.
CREATE TABLE postrider_status (
    event_seq    INTEGER PRIMARY KEY,
    -- NULL: the roll-up has not seen the event, but somebody has redriven or expired it.
    status       TEXT,
    expected     INTEGER NOT NULL DEFAULT 0,
    consumed     INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    redrives     INTEGER NOT NULL DEFAULT 0,
    redriven_at  INTEGER,
    expired_at   INTEGER,
    sent_at      INTEGER,
    last_sent_at INTEGER,
    topic        TEXT,
    service      TEXT,
    tenant_id    TEXT,
    created_at   INTEGER,
    -- When time alone will change the status; NULL once it is final.
    expires_at   INTEGER,
    status_at    INTEGER,
    updated_at   INTEGER,
    last_error   TEXT
);
-- Every index of SQLite ends with the row's number, which here is event_seq.
CREATE INDEX postrider_status_status ON postrider_status (status);
CREATE INDEX postrider_status_expires ON postrider_status (expires_at) WHERE expires_at IS NOT NULL;

-- By which events are found: one row for each topic, service, trace, parent, aggregate, key, tenant and consumer of an event,
-- as a hash. So there is one narrow index for all of them, it never changes, and producers do not write it.
CREATE TABLE postrider_lookup (
    hash      INTEGER NOT NULL,
    event_seq INTEGER NOT NULL,
    PRIMARY KEY (hash, event_seq)
) WITHOUT ROWID;

-- How far the roll-up has looked for new events.
CREATE TABLE postrider_rollup (
    id        INTEGER PRIMARY KEY,
    folded_to INTEGER NOT NULL
);
INSERT INTO postrider_rollup (id, folded_to) VALUES (1, 0);
