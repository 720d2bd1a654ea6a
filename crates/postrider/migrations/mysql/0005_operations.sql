-- Bulk operations: what was asked, how far it has come, and who works on it. Progress commits with the work that it counts.
CREATE TABLE IF NOT EXISTS postrider_operation (
    number      BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id          VARCHAR(64) NOT NULL UNIQUE,
    -- RUNNING, PAUSED, CANCELLED, DONE.
    state       VARCHAR(9) NOT NULL,
    -- Both as JSON: which events, and what else was asked.
    filter      TEXT NOT NULL,
    options     TEXT NOT NULL,
    -- As far as somebody has counted.
    total       BIGINT,
    done        BIGINT NOT NULL DEFAULT 0,
    failed      BIGINT NOT NULL DEFAULT 0,
    skipped     BIGINT NOT NULL DEFAULT 0,
    -- Below which event it goes on; it never goes up again, so that nothing is done twice.
    position    BIGINT,
    token       BIGINT,
    lock_owner  VARCHAR(128),
    lock_until  DATETIME(6),
    created_at  DATETIME(6) NOT NULL,
    updated_at  DATETIME(6) NOT NULL,
    finished_at DATETIME(6)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

-- What happened to events in each minute, for charts: counted by the roll-up, in the transaction that writes the status.
CREATE TABLE IF NOT EXISTS postrider_figure (
    -- Since 1970, in UTC.
    minute   BIGINT NOT NULL PRIMARY KEY,
    created  BIGINT NOT NULL DEFAULT 0,
    sent     BIGINT NOT NULL DEFAULT 0,
    consumed BIGINT NOT NULL DEFAULT 0,
    failed   BIGINT NOT NULL DEFAULT 0,
    dead     BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
