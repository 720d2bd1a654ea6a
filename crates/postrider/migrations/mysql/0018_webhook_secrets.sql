-- Secrets of webhooks that have their own. Not in postrider_subscription, so that reading subscriptions shows none.
CREATE TABLE IF NOT EXISTS postrider_webhook_secret (
    topic      VARCHAR(128) NOT NULL,
    consumer   VARCHAR(128) NOT NULL,
    secret     VARCHAR(128) NOT NULL,
    -- The one before it, which signs beside it for a while.
    previous   VARCHAR(128),
    changed_at DATETIME(6) NOT NULL,
    PRIMARY KEY (topic, consumer)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
