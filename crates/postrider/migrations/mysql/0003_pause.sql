-- Lanes whose deliveries nobody claims, until an operator resumes them.
CREATE TABLE IF NOT EXISTS postrider_pause (
    lane      VARCHAR(128) NOT NULL PRIMARY KEY,
    paused_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
