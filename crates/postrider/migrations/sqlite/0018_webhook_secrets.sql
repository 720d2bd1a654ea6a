-- Secrets of webhooks that have their own. Not in postrider_subscription, so that reading subscriptions shows none.
CREATE TABLE postrider_webhook_secret (
    topic      TEXT NOT NULL,
    consumer   TEXT NOT NULL,
    secret     TEXT NOT NULL,
    -- The one before it, which signs beside it for a while.
    previous   TEXT,
    changed_at INTEGER NOT NULL
               CONSTRAINT changed_at_is_milliseconds_since_1970_utc CHECK (typeof(changed_at) = 'integer'),
    PRIMARY KEY (topic, consumer)
) WITHOUT ROWID;
