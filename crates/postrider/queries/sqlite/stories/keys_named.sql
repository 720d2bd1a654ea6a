-- Business keys of any scope. ?1 keys as JSON, ?2 limit.
SELECT k.scope, k.key, k.status, k.updated_at
FROM json_each(?1) i
CROSS JOIN postrider_idempotency k INDEXED BY postrider_idempotency_key ON k.key = i.value
LIMIT ?2
