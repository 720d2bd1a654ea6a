-- ?1 topic, or NULL for all.
SELECT topic, consumer, enabled, sort_order, description, via, endpoint, exchange, routing_key, removed, created_at, updated_at
FROM postrider_subscription
WHERE NOT removed AND (?1 IS NULL OR topic = ?1)
ORDER BY topic, sort_order, consumer
