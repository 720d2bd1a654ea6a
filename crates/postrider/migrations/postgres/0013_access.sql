-- What a token reaches and when it expires, and the chain of the audit.

-- The scope is JSON; NULL: everything.
ALTER TABLE postrider_token ADD COLUMN scope text, ADD COLUMN expires_at timestamptz;

-- `place` and `hash` are written once, by the sealer: the hash covers the record and the hash before it.
ALTER TABLE postrider_audit
    ADD COLUMN role varchar(16),
    ADD COLUMN reason varchar(1000),
    ADD COLUMN before_state text,
    ADD COLUMN after_state text,
    ADD COLUMN place bigint,
    ADD COLUMN hash varchar(64);
CREATE UNIQUE INDEX postrider_audit_place ON postrider_audit (place);
CREATE INDEX postrider_audit_unsealed ON postrider_audit (number) WHERE place IS NULL;

-- One row: the last link of the chain, and the last link that was pruned.
CREATE TABLE postrider_audit_chain (
    id           integer PRIMARY KEY CONSTRAINT only_one_chain CHECK (id = 1),
    place        bigint NOT NULL DEFAULT 0,
    hash         varchar(64) NOT NULL DEFAULT '',
    anchor_place bigint NOT NULL DEFAULT 0,
    anchor_hash  varchar(64) NOT NULL DEFAULT ''
);
INSERT INTO postrider_audit_chain (id) VALUES (1);
