-- $1 older than, in ms; $2 limit.
DELETE FROM postrider_operation
WHERE number IN (SELECT number FROM postrider_operation WHERE finished_at < now() - $1 * interval '1 ms' ORDER BY number LIMIT $2)
