-- Inserts or skips many rows. $1 consumers, $2 event ids, $3 topics, $4 tenants, $5 idempotency keys.
INSERT INTO postrider_inbox (consumer, event_id, topic, tenant_id, idempotency_key)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) AS r (consumer, event_id, topic, tenant_id, idempotency_key)
-- In one order, so that two batches with common events wait for each other instead of deadlocking.
ORDER BY r.consumer COLLATE "C", r.event_id COLLATE "C"
ON CONFLICT (consumer, event_id) DO NOTHING
RETURNING consumer, event_id
