-- ? topic, twice, or NULL for all.
SELECT topic, consumer, enabled, sort_order, description, via, endpoint, exchange, routing_key, removed, created_at, updated_at
FROM postrider_subscription
WHERE NOT removed AND (? IS NULL OR topic = ?)
ORDER BY topic, sort_order, consumer
