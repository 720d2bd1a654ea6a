-- $1 actor, $2 token id, $3 action, $4 target, $5 outcome, $6 request id, $7 detail.
INSERT INTO postrider_audit (actor, token_id, action, target, outcome, request_id, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7)
