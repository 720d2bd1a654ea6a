-- Inserts or skips: the transaction that inserts the row has the effect. $1 consumer, $2 event id, $3 topic, $4 tenant, $5
-- idempotency key.
INSERT INTO postrider_inbox (consumer, event_id, topic, tenant_id, idempotency_key)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (consumer, event_id) DO NOTHING
