-- Which processes run and what each of them does, and which alerts are open.

-- One row per process, written again every few seconds. A row that is not written any more belongs to a process that has died.
CREATE TABLE postrider_instance (
    instance_id TEXT PRIMARY KEY NOT NULL,
    role        TEXT NOT NULL,
    version     TEXT NOT NULL,
    -- JSON: the lanes and loops that it runs, and the state of its broker.
    state       TEXT NOT NULL,
    started_at  INTEGER NOT NULL
                CONSTRAINT started_at_is_milliseconds_since_1970_utc CHECK (typeof(started_at) = 'integer'),
    seen_at     INTEGER NOT NULL
                CONSTRAINT seen_at_is_milliseconds_since_1970_utc CHECK (typeof(seen_at) = 'integer')
) WITHOUT ROWID;

-- The alerts that fire, and those whose end is not sent yet.
CREATE TABLE postrider_alert (
    alert    TEXT NOT NULL,
    -- The consumer, where an alert is about one.
    subject  TEXT NOT NULL,
    alert_id TEXT NOT NULL,
    since    INTEGER NOT NULL
             CONSTRAINT since_is_milliseconds_since_1970_utc CHECK (typeof(since) = 'integer'),
    -- JSON: what is sent.
    details  TEXT NOT NULL,
    -- Whether its beginning was sent.
    sent     INTEGER NOT NULL DEFAULT 0 CONSTRAINT sent_is_0_or_1 CHECK (sent IN (0, 1)),
    over_at  INTEGER
             CONSTRAINT over_at_is_milliseconds_since_1970_utc CHECK (typeof(over_at) IN ('integer', 'null')),
    PRIMARY KEY (alert, subject)
) WITHOUT ROWID;
