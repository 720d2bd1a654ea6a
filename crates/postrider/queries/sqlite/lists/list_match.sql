-- Which events match by their own rows. ?1 event seqs as JSON, ?2 filter as JSON.
SELECT e.seq
FROM (SELECT json_extract(?2, '$.topic') AS topic, json_extract(?2, '$.trace_id') AS trace_id,
           json_extract(?2, '$.parent_event_id') AS parent_event_id,
           json_extract(?2, '$.aggregate_type') AS aggregate_type, json_extract(?2, '$.aggregate_id') AS aggregate_id,
           json_extract(?2, '$.event_key') AS event_key, json_extract(?2, '$.consumer') AS consumer,
           json_extract(?2, '$.tenant_id') AS tenant_id, json_extract(?2, '$.from_ms') AS from_ms,
           json_extract(?2, '$.to_ms') AS to_ms, json_extract(?2, '$.unheard') AS unheard) f
CROSS JOIN json_each(?1) i
CROSS JOIN postrider_event e ON e.seq = i.value
WHERE (f.topic IS NULL OR e.topic = f.topic)
  -- Metadata may name the trace: the caller checks it.
  AND (f.trace_id IS NULL OR e.trace_id = f.trace_id OR (coalesce(e.trace_id, '') = '' AND e.metadata LIKE '%"traceId"%'))
  AND (f.parent_event_id IS NULL OR e.parent_event_id = f.parent_event_id)
  AND (f.aggregate_type IS NULL OR e.aggregate_type = f.aggregate_type)
  AND (f.aggregate_id IS NULL OR e.aggregate_id = f.aggregate_id)
  AND (f.event_key IS NULL OR e.event_key = f.event_key)
  AND (f.tenant_id IS NULL OR e.tenant_id = f.tenant_id)
  AND (f.from_ms IS NULL OR e.created_at >= f.from_ms)
  AND (f.to_ms IS NULL OR e.created_at < f.to_ms)
  AND (f.unheard IS NULL OR e.waits_for <> '')
  AND (f.consumer IS NULL
       OR EXISTS (SELECT 1 FROM postrider_consumption c WHERE c.event_seq = e.seq AND c.consumer = f.consumer)
       OR EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq AND f.consumer IN (d.lane, d.target)))
