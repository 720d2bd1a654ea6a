-- Who may come in, and who did what. Of secrets only the hash is here.

CREATE TABLE IF NOT EXISTS postrider_token (
    token_id     VARCHAR(64) NOT NULL PRIMARY KEY,
    name         VARCHAR(128) NOT NULL,
    role         VARCHAR(16) NOT NULL,
    hash         VARCHAR(128) NOT NULL,
    created_at   DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    last_used_at DATETIME(6),
    revoked_at   DATETIME(6),
    UNIQUE KEY postrider_token_hash (hash),
    CONSTRAINT postrider_role_is_known CHECK (role IN ('viewer', 'publisher', 'consumer', 'operator', 'admin'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

CREATE TABLE IF NOT EXISTS postrider_session (
    hash       VARCHAR(128) NOT NULL PRIMARY KEY,
    token_id   VARCHAR(64) NOT NULL,
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    seen_at    DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    expires_at DATETIME(6) NOT NULL,
    KEY postrider_session_expires (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

-- Appended to, and nothing else.
CREATE TABLE IF NOT EXISTS postrider_audit (
    number     BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at         DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    actor      VARCHAR(128) NOT NULL,
    token_id   VARCHAR(128),
    action     VARCHAR(128) NOT NULL,
    target     VARCHAR(512),
    outcome    VARCHAR(128) NOT NULL,
    request_id VARCHAR(128),
    detail     VARCHAR(1000)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
