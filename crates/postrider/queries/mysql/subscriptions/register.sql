-- Stores the subscription of a consumer in code. The parameters are the columns.
INSERT INTO postrider_subscription (topic, consumer, enabled, sort_order, description, via, endpoint, exchange, routing_key,
                                    rate_per_second, timeout_seconds, max_attempts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
