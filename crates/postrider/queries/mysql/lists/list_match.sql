-- Which events match by their own rows. ? event seqs as JSON, ? filter as JSON.
SELECT e.seq
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN JSON_TABLE(?, '$' COLUMNS (
    topic VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.topic',
    trace_id VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.trace_id', parent_event_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.parent_event_id',
    aggregate_type VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.aggregate_type', aggregate_id VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.aggregate_id',
    event_key VARCHAR(256) CHARACTER SET utf8mb4 PATH '$.event_key', consumer VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.consumer',
    tenant_id VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.tenant_id', from_ms BIGINT PATH '$.from_ms',
    to_ms BIGINT PATH '$.to_ms', unheard INT PATH '$.unheard')) f
STRAIGHT_JOIN postrider_event e FORCE INDEX (PRIMARY) ON e.seq = i.seq
WHERE (f.topic IS NULL OR e.topic = f.topic)
  -- Metadata may name the trace: the caller checks it.
  AND (f.trace_id IS NULL OR e.trace_id = f.trace_id OR (coalesce(e.trace_id, '') = '' AND e.metadata LIKE '%"traceId"%'))
  AND (f.parent_event_id IS NULL OR e.parent_event_id = f.parent_event_id)
  AND (f.aggregate_type IS NULL OR e.aggregate_type = f.aggregate_type)
  AND (f.aggregate_id IS NULL OR e.aggregate_id = f.aggregate_id)
  AND (f.event_key IS NULL OR e.event_key = f.event_key)
  AND (f.tenant_id IS NULL OR e.tenant_id = f.tenant_id)
  AND (f.from_ms IS NULL OR e.created_at >= TIMESTAMP '1970-01-01 00:00:00' + INTERVAL f.from_ms * 1000 MICROSECOND)
  AND (f.to_ms IS NULL OR e.created_at < TIMESTAMP '1970-01-01 00:00:00' + INTERVAL f.to_ms * 1000 MICROSECOND)
  AND (f.unheard IS NULL OR e.waits_for <> '')
  AND (f.consumer IS NULL
       OR EXISTS (SELECT 1 FROM postrider_consumption c WHERE c.event_seq = e.seq AND c.consumer = f.consumer)
       OR EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq AND f.consumer IN (d.lane, d.target)))
