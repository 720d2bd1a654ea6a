-- Stores an operator's choice. ?1 … ?9 are the columns.
INSERT INTO postrider_subscription (topic, consumer, enabled, sort_order, description, via, endpoint, exchange, routing_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (topic, consumer) DO UPDATE
SET enabled = excluded.enabled, removed = false, sort_order = excluded.sort_order, description = excluded.description,
    via = excluded.via, endpoint = excluded.endpoint, exchange = excluded.exchange, routing_key = excluded.routing_key,
    updated_at = excluded.updated_at
