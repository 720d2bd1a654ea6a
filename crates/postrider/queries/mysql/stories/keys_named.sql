-- Business keys of any scope. ? keys as JSON, ? limit.
SELECT k.scope, k.key, k.status, k.updated_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (named VARCHAR(256) CHARACTER SET utf8mb4 PATH '$')) i
STRAIGHT_JOIN postrider_idempotency k FORCE INDEX (postrider_idempotency_key) ON k.key = i.named
LIMIT ?
