-- Bulk operations: what was asked, how far it has come, and who works on it. Progress commits with the work that it counts.
CREATE TABLE postrider_operation (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          varchar(64) COLLATE "C" NOT NULL UNIQUE,
    -- RUNNING, PAUSED, CANCELLED, DONE.
    state       varchar(9) NOT NULL,
    -- Both as JSON: which events, and what else was asked.
    filter      text NOT NULL,
    options     text NOT NULL,
    -- As far as somebody has counted.
    total       bigint,
    done        bigint NOT NULL DEFAULT 0,
    failed      bigint NOT NULL DEFAULT 0,
    skipped     bigint NOT NULL DEFAULT 0,
    -- Below which event it goes on; it never goes up again, so that nothing is done twice.
    position    bigint,
    token       bigint,
    lock_owner  varchar(128),
    lock_until  timestamptz,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    finished_at timestamptz
);

-- What happened to events in each minute, for charts: counted by the roll-up, in the transaction that writes the status.
CREATE TABLE postrider_figure (
    -- Since 1970, in UTC.
    minute   bigint PRIMARY KEY,
    created  bigint NOT NULL DEFAULT 0,
    sent     bigint NOT NULL DEFAULT 0,
    consumed bigint NOT NULL DEFAULT 0,
    failed   bigint NOT NULL DEFAULT 0,
    dead     bigint NOT NULL DEFAULT 0
);
