-- Business keys of any scope. $1 keys as JSON, $2 limit.
SELECT r.*
FROM json_array_elements_text($1::json) AS i
CROSS JOIN LATERAL (
    SELECT scope, key, status, updated_at FROM postrider_idempotency WHERE key = i
    OFFSET 0
) r
LIMIT $2
