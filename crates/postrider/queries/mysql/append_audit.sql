-- ? actor, ? token id, ? action, ? target, ? outcome, ? request id, ? detail.
INSERT INTO postrider_audit (actor, token_id, action, target, outcome, request_id, detail)
VALUES (?, ?, ?, ?, ?, ?, ?)
