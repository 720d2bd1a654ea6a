-- Which processes run and what each of them does, and which alerts are open.

-- One row per process, written again every few seconds. A row that is not written any more belongs to a process that has died.
CREATE TABLE IF NOT EXISTS postrider_instance (
    instance_id VARCHAR(128) NOT NULL PRIMARY KEY,
    role        VARCHAR(32) NOT NULL,
    version     VARCHAR(32) NOT NULL,
    -- JSON: the lanes and loops that it runs, and the state of its broker.
    state       MEDIUMTEXT NOT NULL,
    started_at  DATETIME(6) NOT NULL,
    seen_at     DATETIME(6) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

-- The alerts that fire, and those whose end is not sent yet.
CREATE TABLE IF NOT EXISTS postrider_alert (
    alert    VARCHAR(32) NOT NULL,
    -- The consumer, where an alert is about one.
    subject  VARCHAR(128) NOT NULL,
    alert_id VARCHAR(64) NOT NULL,
    since    DATETIME(6) NOT NULL,
    -- JSON: what is sent.
    details  MEDIUMTEXT NOT NULL,
    -- Whether its beginning was sent.
    sent     BOOLEAN NOT NULL DEFAULT FALSE,
    over_at  DATETIME(6),
    PRIMARY KEY (alert, subject)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
