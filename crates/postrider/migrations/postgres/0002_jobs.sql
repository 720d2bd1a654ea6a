-- Cron jobs: one row each, however many instances have it. A run holds the row's lease and its token, as everything that
-- is claimed does.

CREATE TABLE postrider_job (
    name        varchar(128) COLLATE "C" PRIMARY KEY,
    schedule    varchar(128) NOT NULL,
    zone        varchar(128) NOT NULL,
    -- What was due before this is not the job's business: it was not there yet, or had another schedule.
    since       timestamptz NOT NULL,
    next_slot   timestamptz,
    -- Only a later slot is ever begun: this is what makes each fire once.
    last_slot   timestamptz,
    fired_at    timestamptz,
    owner       varchar(128),
    -- Both NULL: nobody runs it.
    token       bigint,
    lock_until  timestamptz,
    -- How the last run that ended did: one of result and error is there.
    finished_at timestamptz,
    last_result varchar(1000),
    last_error  varchar(1000)
);
