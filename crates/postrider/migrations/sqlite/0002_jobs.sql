-- Cron jobs: one row each, however many instances have it. A run holds the row's lease and its token, as everything that
-- is claimed does.

CREATE TABLE postrider_job (
    name        TEXT PRIMARY KEY NOT NULL
                CONSTRAINT name_is_1_to_128_of_letters_digits_dot_underscore_dash
                CHECK (length(name) BETWEEN 1 AND 128 AND name NOT GLOB '*[^A-Za-z0-9._-]*'),
    schedule    TEXT NOT NULL,
    zone        TEXT NOT NULL,
    -- What was due before this is not the job's business: it was not there yet, or had another schedule.
    since       INTEGER NOT NULL
                CONSTRAINT since_is_milliseconds_since_1970_utc CHECK (typeof(since) = 'integer'),
    next_slot   INTEGER
                CONSTRAINT next_slot_is_milliseconds_since_1970_utc CHECK (typeof(next_slot) IN ('integer', 'null')),
    -- Only a later slot is ever begun: this is what makes each fire once.
    last_slot   INTEGER
                CONSTRAINT last_slot_is_milliseconds_since_1970_utc CHECK (typeof(last_slot) IN ('integer', 'null')),
    fired_at    INTEGER
                CONSTRAINT fired_at_is_milliseconds_since_1970_utc CHECK (typeof(fired_at) IN ('integer', 'null')),
    owner       TEXT,
    -- Both NULL: nobody runs it.
    token       INTEGER,
    lock_until  INTEGER
                CONSTRAINT lock_until_is_milliseconds_since_1970_utc CHECK (typeof(lock_until) IN ('integer', 'null')),
    -- How the last run that ended did: one of result and error is there.
    finished_at INTEGER
                CONSTRAINT finished_at_is_milliseconds_since_1970_utc CHECK (typeof(finished_at) IN ('integer', 'null')),
    last_result TEXT,
    last_error  TEXT
) WITHOUT ROWID;
