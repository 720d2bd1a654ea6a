-- Inserts, or is refused by the index: the transaction that inserts the row has the effect. ? consumer, ? event id, ? topic, ?
-- tenant, ? idempotency key.
INSERT INTO postrider_inbox (consumer, event_id, topic, tenant_id, idempotency_key)
VALUES (?, ?, ?, ?, ?)
