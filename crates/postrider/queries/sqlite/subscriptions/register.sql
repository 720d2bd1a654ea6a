-- Stores the subscription of a consumer in code. ?1 … ?12 are the columns.
INSERT INTO postrider_subscription (topic, consumer, enabled, sort_order, description, via, endpoint, exchange, routing_key,
                                    rate_per_second, timeout_seconds, max_attempts)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
