-- $1 before which number, $2 limit.
SELECT number, at, actor, token_id, action, target, outcome, request_id, detail
FROM postrider_audit WHERE number < $1 ORDER BY number DESC LIMIT $2
