-- Cron jobs: one row each, however many instances have it. A run holds the row's lease and its token, as everything that
-- is claimed does.

CREATE TABLE IF NOT EXISTS postrider_job (
    name        VARCHAR(128) NOT NULL PRIMARY KEY,
    schedule    VARCHAR(128) NOT NULL,
    zone        VARCHAR(128) NOT NULL,
    -- What was due before this is not the job's business: it was not there yet, or had another schedule.
    since       DATETIME(6) NOT NULL,
    next_slot   DATETIME(6),
    -- Only a later slot is ever begun: this is what makes each fire once.
    last_slot   DATETIME(6),
    fired_at    DATETIME(6),
    owner       VARCHAR(128),
    -- Both NULL: nobody runs it.
    token       BIGINT,
    lock_until  DATETIME(6),
    -- How the last run that ended did: one of result and error is there.
    finished_at DATETIME(6),
    last_result VARCHAR(1000),
    last_error  VARCHAR(1000)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
