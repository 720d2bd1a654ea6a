-- Inserts all of them, or none if one is known. ? receipts as JSON, in an order that all batches share, so that two batches
-- with common events wait for each other instead of deadlocking.
INSERT INTO postrider_inbox (consumer, event_id, topic, tenant_id, idempotency_key)
SELECT r.consumer, r.event_id, r.topic, r.tenant_id, r.idempotency_key
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    consumer VARCHAR(128) CHARACTER SET utf8mb4 PATH '$[0]', event_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[1]',
    topic VARCHAR(128) CHARACTER SET utf8mb4 PATH '$[2]', tenant_id VARCHAR(128) CHARACTER SET utf8mb4 PATH '$[3]',
    idempotency_key VARCHAR(256) CHARACTER SET utf8mb4 PATH '$[4]')) r
