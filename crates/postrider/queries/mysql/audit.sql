-- ? before which number, ? limit.
SELECT number, at, actor, token_id, action, target, outcome, request_id, detail
FROM postrider_audit WHERE number < ? ORDER BY number DESC LIMIT ?
