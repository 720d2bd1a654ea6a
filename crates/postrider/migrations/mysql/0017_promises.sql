-- What the product checks about its own promises, and the facts that it needs for that.

-- How often an event came to a consumer again after its effect, and the inbox stopped it. Most events have no row.
CREATE TABLE IF NOT EXISTS postrider_repeat (
    consumer    VARCHAR(128) NOT NULL,
    event_id    VARCHAR(64) NOT NULL,
    repeats     INT NOT NULL,
    repeated_at DATETIME(6) NOT NULL,
    PRIMARY KEY (consumer, event_id),
    KEY postrider_repeat_at (repeated_at),
    KEY postrider_repeat_event (event_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

-- The result of the checks, one row for each promise and half hour since 1970. The row of the current half hour has the last result.
CREATE TABLE IF NOT EXISTS postrider_promise (
    promise    VARCHAR(32) NOT NULL,
    half_hour  BIGINT NOT NULL,
    -- Whether it held throughout the half hour, and whether events waited so that it held.
    kept       BOOLEAN NOT NULL,
    strained   BOOLEAN NOT NULL,
    -- JSON: the last result.
    result     MEDIUMTEXT NOT NULL,
    checked_at DATETIME(6) NOT NULL,
    PRIMARY KEY (promise, half_hour)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

-- MySQL has no ADD … IF NOT EXISTS, and a migration that was interrupted runs again.
-- Whether the attempts of a lane are kept. An event of a lane without history leaves no trace once it is done.
SET @postrider_change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'postrider_lane' AND column_name = 'history'),
    'DO 0', 'ALTER TABLE postrider_lane ADD COLUMN history BOOLEAN NOT NULL DEFAULT TRUE');
PREPARE postrider_change FROM @postrider_change;
EXECUTE postrider_change;
DEALLOCATE PREPARE postrider_change;
