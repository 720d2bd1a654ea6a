-- What an operator allows a consumer, for each of its subscriptions; NULL: as its lane says.
ALTER TABLE postrider_subscription
    ADD COLUMN rate_per_second INT NULL,
    ADD COLUMN timeout_seconds INT NULL,
    ADD COLUMN max_attempts    INT NULL;
