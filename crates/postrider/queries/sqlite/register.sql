-- A consumer in code says what it hears; whatever is there already stays. ?1 … ?9 as the columns.
INSERT INTO postrider_subscription (topic, consumer, enabled, sort_order, description, via, endpoint, exchange, routing_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (topic, consumer) DO NOTHING
