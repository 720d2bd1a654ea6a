-- Secrets of webhooks that have their own. Not in postrider_subscription, so that reading subscriptions shows none.
CREATE TABLE postrider_webhook_secret (
    topic      varchar(128) COLLATE "C" NOT NULL,
    consumer   varchar(128) COLLATE "C" NOT NULL,
    secret     varchar(128) NOT NULL,
    -- The one before it, which signs beside it for a while.
    previous   varchar(128),
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (topic, consumer)
);
