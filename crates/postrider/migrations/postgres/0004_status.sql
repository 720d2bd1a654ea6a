-- Where events stand, for lists. Why it is kept beside the event, and by whom: docs/decisions/0008-status-kept.md.

-- Something has changed that an event's status may depend on. Written in the transaction that changes it, and removed by the
-- roll-up before it reads: what commits later has a mark of its own.
CREATE TABLE postrider_mark (
    id        bigint GENERATED ALWAYS AS IDENTITY (CACHE 32) PRIMARY KEY,
    event_seq bigint NOT NULL
);

-- One row per event, made and kept by the roll-up. Only redrives, redriven_at and expired_at are facts, written by whoever
-- redrives or expires; everything else can be computed again.
CREATE TABLE postrider_status (
    event_seq    bigint PRIMARY KEY,
    -- NULL: the roll-up has not seen the event, but somebody has redriven or expired it.
    status       varchar(8) COLLATE "C",
    expected     integer NOT NULL DEFAULT 0,
    consumed     integer NOT NULL DEFAULT 0,
    failed       integer NOT NULL DEFAULT 0,
    redrives     integer NOT NULL DEFAULT 0,
    redriven_at  timestamptz,
    expired_at   timestamptz,
    sent_at      timestamptz,
    last_sent_at timestamptz,
    topic        varchar(128) COLLATE "C",
    service      varchar(128) COLLATE "C",
    tenant_id    text COLLATE "C",
    created_at   timestamptz,
    -- When time alone will change the status; NULL once it is final.
    expires_at   timestamptz,
    status_at    timestamptz,
    updated_at   timestamptz,
    last_error   varchar(1000)
);
CREATE INDEX postrider_status_status ON postrider_status (status, event_seq);
CREATE INDEX postrider_status_expires ON postrider_status (expires_at) WHERE expires_at IS NOT NULL;

-- By which events are found: one row for each topic, service, trace, parent, aggregate, key, tenant and consumer of an event,
-- as a hash. So there is one narrow index for all of them, it never changes, and producers do not write it.
CREATE TABLE postrider_lookup (
    hash      bigint NOT NULL,
    event_seq bigint NOT NULL,
    PRIMARY KEY (hash, event_seq)
);

-- How far the roll-up has looked for new events. Locked by whoever folds.
CREATE TABLE postrider_rollup (
    id        smallint PRIMARY KEY,
    folded_to bigint NOT NULL
);
INSERT INTO postrider_rollup (id, folded_to) VALUES (1, 0);
