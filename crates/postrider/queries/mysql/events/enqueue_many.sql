-- Stores events, in the order of the array. ? whether they have a subscriber, ? events as JSON. Stores all of them, or none if
-- one of the ids is known.
INSERT INTO postrider_event (
    event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id, parent_event_id,
    aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
    occurred_at, expire_at, deliver_at, max_attempts, exchange, routing_key, waits_for)
SELECT event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id, parent_event_id,
       aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
       TIMESTAMP '1970-01-01 00:00:00' + INTERVAL occurred_ms * 1000 MICROSECOND,
       coalesce(UTC_TIMESTAMP(6) + INTERVAL expire_in_ms * 1000 MICROSECOND,
                TIMESTAMP '1970-01-01 00:00:00' + INTERVAL expire_ms * 1000 MICROSECOND),
       coalesce(UTC_TIMESTAMP(6) + INTERVAL deliver_in_ms * 1000 MICROSECOND,
                TIMESTAMP '1970-01-01 00:00:00' + INTERVAL deliver_ms * 1000 MICROSECOND),
       max_attempts, exchange, routing_key, CASE WHEN NOT ? THEN topic END
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    event_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.event_id',
    topic VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.topic',
    event_key VARCHAR(256) CHARACTER SET utf8mb4 PATH '$.event_key',
    payload MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$.payload',
    payload_type VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.payload_type',
    payload_encoding VARCHAR(6) CHARACTER SET utf8mb4 PATH '$.payload_encoding',
    trace_id VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.trace_id',
    span_id VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.span_id',
    parent_event_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.parent_event_id',
    aggregate_type VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.aggregate_type',
    aggregate_id VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.aggregate_id',
    tenant_id VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.tenant_id',
    store_id VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.store_id',
    initiator VARCHAR(4096) CHARACTER SET utf8mb4 PATH '$.initiator',
    metadata TEXT CHARACTER SET utf8mb4 PATH '$.metadata',
    occurred_ms BIGINT PATH '$.occurred_ms',
    expire_ms BIGINT PATH '$.expire_ms',
    expire_in_ms BIGINT PATH '$.expire_in_ms',
    deliver_ms BIGINT PATH '$.deliver_ms',
    deliver_in_ms BIGINT PATH '$.deliver_in_ms',
    max_attempts SMALLINT PATH '$.max_attempts',
    exchange VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.exchange',
    routing_key VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.routing_key')) i
