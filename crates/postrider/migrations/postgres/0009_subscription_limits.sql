-- What an operator allows a consumer, for each of its subscriptions; NULL: as its lane says.
ALTER TABLE postrider_subscription
    ADD COLUMN rate_per_second integer CONSTRAINT rate_per_second_is_positive CHECK (rate_per_second > 0),
    ADD COLUMN timeout_seconds integer CONSTRAINT timeout_seconds_is_positive CHECK (timeout_seconds > 0),
    ADD COLUMN max_attempts    integer CONSTRAINT max_attempts_is_positive CHECK (max_attempts > 0);
