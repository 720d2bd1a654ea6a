-- The attempts of one consumer by time. Attempt 0 has no time.
CREATE INDEX postrider_consumption_time ON postrider_consumption (consumer, consumed_at, event_seq, attempt)
    WHERE consumed_at IS NOT NULL;
