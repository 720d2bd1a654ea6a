-- What a token reaches and when it expires, and the chain of the audit.

-- The scope is JSON; NULL: everything.
ALTER TABLE postrider_token ADD COLUMN scope TEXT;
ALTER TABLE postrider_token ADD COLUMN expires_at INTEGER
    CONSTRAINT expires_at_is_milliseconds_since_1970_utc CHECK (typeof(expires_at) IN ('integer', 'null'));

-- `place` and `hash` are written once, by the sealer: the hash covers the record and the hash before it.
ALTER TABLE postrider_audit ADD COLUMN role TEXT;
ALTER TABLE postrider_audit ADD COLUMN reason TEXT;
ALTER TABLE postrider_audit ADD COLUMN before_state TEXT;
ALTER TABLE postrider_audit ADD COLUMN after_state TEXT;
ALTER TABLE postrider_audit ADD COLUMN place INTEGER;
ALTER TABLE postrider_audit ADD COLUMN hash TEXT;
CREATE UNIQUE INDEX postrider_audit_place ON postrider_audit (place);
CREATE INDEX postrider_audit_unsealed ON postrider_audit (number) WHERE place IS NULL;

-- One row: the last link of the chain, and the last link that was pruned.
CREATE TABLE postrider_audit_chain (
    id           INTEGER PRIMARY KEY CONSTRAINT only_one_chain CHECK (id = 1),
    place        INTEGER NOT NULL DEFAULT 0,
    hash         TEXT NOT NULL DEFAULT '',
    anchor_place INTEGER NOT NULL DEFAULT 0,
    anchor_hash  TEXT NOT NULL DEFAULT ''
);
INSERT INTO postrider_audit_chain (id) VALUES (1);
