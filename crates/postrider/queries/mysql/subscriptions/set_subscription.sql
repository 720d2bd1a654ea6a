-- Stores an operator's choice. The parameters are the columns.
INSERT INTO postrider_subscription (topic, consumer, enabled, sort_order, description, via, endpoint, exchange, routing_key,
                                    rate_per_second, timeout_seconds, max_attempts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
-- VALUES(…) is deprecated on MySQL, but MariaDB has no other syntax.
ON DUPLICATE KEY UPDATE
    enabled = VALUES(enabled), removed = FALSE, sort_order = VALUES(sort_order), description = VALUES(description),
    via = VALUES(via), endpoint = VALUES(endpoint), exchange = VALUES(exchange), routing_key = VALUES(routing_key),
    rate_per_second = VALUES(rate_per_second), timeout_seconds = VALUES(timeout_seconds), max_attempts = VALUES(max_attempts),
    updated_at = UTC_TIMESTAMP(6)
