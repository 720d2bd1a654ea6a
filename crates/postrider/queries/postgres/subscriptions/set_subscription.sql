-- Stores an operator's choice. $1 … $12 are the columns.
INSERT INTO postrider_subscription (topic, consumer, enabled, sort_order, description, via, endpoint, exchange, routing_key,
                                    rate_per_second, timeout_seconds, max_attempts)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (topic, consumer) DO UPDATE
SET enabled = excluded.enabled, removed = false, sort_order = excluded.sort_order, description = excluded.description,
    via = excluded.via, endpoint = excluded.endpoint, exchange = excluded.exchange, routing_key = excluded.routing_key,
    rate_per_second = excluded.rate_per_second, timeout_seconds = excluded.timeout_seconds, max_attempts = excluded.max_attempts,
    updated_at = now()
