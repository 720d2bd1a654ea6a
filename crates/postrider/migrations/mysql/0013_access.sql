-- What a token reaches and when it expires, and the chain of the audit.
-- MySQL has no ADD … IF NOT EXISTS, and a migration that was interrupted runs again.

-- The scope is JSON; NULL: everything.
SET @postrider_change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'postrider_token' AND column_name = 'scope'),
    'DO 0', 'ALTER TABLE postrider_token ADD COLUMN scope TEXT, ADD COLUMN expires_at DATETIME(6)');
PREPARE postrider_change FROM @postrider_change;
EXECUTE postrider_change;

-- `place` and `hash` are written once, by the sealer: the hash covers the record and the hash before it.
SET @postrider_change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'postrider_audit' AND column_name = 'place'),
    'DO 0',
    'ALTER TABLE postrider_audit ADD COLUMN role VARCHAR(16), ADD COLUMN reason VARCHAR(1000), ADD COLUMN before_state TEXT, ADD COLUMN after_state TEXT, ADD COLUMN place BIGINT, ADD COLUMN hash VARCHAR(64), ADD UNIQUE KEY postrider_audit_place (place)');
PREPARE postrider_change FROM @postrider_change;
EXECUTE postrider_change;

DEALLOCATE PREPARE postrider_change;

-- One row: the last link of the chain, and the last link that was pruned.
CREATE TABLE IF NOT EXISTS postrider_audit_chain (
    id           INT NOT NULL PRIMARY KEY,
    place        BIGINT NOT NULL DEFAULT 0,
    hash         VARCHAR(64) NOT NULL DEFAULT '',
    anchor_place BIGINT NOT NULL DEFAULT 0,
    anchor_hash  VARCHAR(64) NOT NULL DEFAULT ''
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
INSERT IGNORE INTO postrider_audit_chain (id) VALUES (1);
