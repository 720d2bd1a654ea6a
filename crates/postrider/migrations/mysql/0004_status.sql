-- Where events stand, for lists. Why it is kept beside the event, and by whom: docs/decisions/0008-status-kept.md.

-- Something has changed that an event's status may depend on. Written in the transaction that changes it, and removed by the
-- roll-up before it reads: what commits later has a mark of its own.
CREATE TABLE IF NOT EXISTS postrider_mark (
    id        BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    event_seq BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

-- One row per event, made and kept by the roll-up. Only redrives, redriven_at and expired_at are facts, written by whoever
-- redrives or expires; everything else can be computed again.
CREATE TABLE IF NOT EXISTS postrider_status (
    event_seq    BIGINT NOT NULL PRIMARY KEY,
    -- NULL: the roll-up has not seen the event, but somebody has redriven or expired it.
    status       VARCHAR(8),
    expected     INT NOT NULL DEFAULT 0,
    consumed     INT NOT NULL DEFAULT 0,
    failed       INT NOT NULL DEFAULT 0,
    redrives     INT NOT NULL DEFAULT 0,
    redriven_at  DATETIME(6),
    expired_at   DATETIME(6),
    sent_at      DATETIME(6),
    last_sent_at DATETIME(6),
    topic        VARCHAR(128),
    service      VARCHAR(128),
    tenant_id    VARCHAR(128),
    created_at   DATETIME(6),
    -- When time alone will change the status; NULL once it is final.
    expires_at   DATETIME(6),
    status_at    DATETIME(6),
    updated_at   DATETIME(6),
    last_error   VARCHAR(1000),
    KEY postrider_status_status (status),
    KEY postrider_status_expires (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

-- By which events are found: one row for each topic, service, trace, parent, aggregate, key, tenant and consumer of an event,
-- as a hash. So there is one narrow index for all of them, it never changes, and producers do not write it.
CREATE TABLE IF NOT EXISTS postrider_lookup (
    hash      BIGINT NOT NULL,
    event_seq BIGINT NOT NULL,
    PRIMARY KEY (hash, event_seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

-- How far the roll-up has looked for new events. Locked by whoever folds.
CREATE TABLE IF NOT EXISTS postrider_rollup (
    id        TINYINT NOT NULL PRIMARY KEY,
    folded_to BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
INSERT INTO postrider_rollup (id, folded_to) VALUES (1, 0) ON DUPLICATE KEY UPDATE folded_to = postrider_rollup.folded_to;
