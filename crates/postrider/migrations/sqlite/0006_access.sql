-- Who may come in, and who did what. Of secrets only the hash is here.

CREATE TABLE postrider_token (
    token_id     TEXT PRIMARY KEY NOT NULL,
    name         TEXT NOT NULL,
    role         TEXT NOT NULL
                 CONSTRAINT role_is_known CHECK (role IN ('viewer', 'publisher', 'consumer', 'operator', 'admin')),
    hash         TEXT NOT NULL UNIQUE,
    created_at   INTEGER NOT NULL
                 CONSTRAINT created_at_is_milliseconds_since_1970_utc CHECK (typeof(created_at) = 'integer'),
    last_used_at INTEGER
                 CONSTRAINT last_used_at_is_milliseconds_since_1970_utc CHECK (typeof(last_used_at) IN ('integer', 'null')),
    revoked_at   INTEGER
                 CONSTRAINT revoked_at_is_milliseconds_since_1970_utc CHECK (typeof(revoked_at) IN ('integer', 'null'))
) WITHOUT ROWID;

CREATE TABLE postrider_session (
    hash       TEXT PRIMARY KEY NOT NULL,
    token_id   TEXT NOT NULL,
    created_at INTEGER NOT NULL
               CONSTRAINT created_at_is_milliseconds_since_1970_utc CHECK (typeof(created_at) = 'integer'),
    seen_at    INTEGER NOT NULL
               CONSTRAINT seen_at_is_milliseconds_since_1970_utc CHECK (typeof(seen_at) = 'integer'),
    expires_at INTEGER NOT NULL
               CONSTRAINT expires_at_is_milliseconds_since_1970_utc CHECK (typeof(expires_at) = 'integer')
) WITHOUT ROWID;
CREATE INDEX postrider_session_expires ON postrider_session (expires_at);

-- Appended to, and nothing else. AUTOINCREMENT: a number is never given twice, so a page that was turned stays turned.
CREATE TABLE postrider_audit (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL
               CONSTRAINT at_is_milliseconds_since_1970_utc CHECK (typeof(at) = 'integer'),
    actor      TEXT NOT NULL,
    token_id   TEXT,
    action     TEXT NOT NULL,
    target     TEXT,
    outcome    TEXT NOT NULL,
    request_id TEXT,
    detail     TEXT
);
