-- Which events match by their own rows. $1 event seqs, $2 filter as JSON.
SELECT e.seq
FROM json_to_record($2::json) AS f (
    topic text, trace_id text, parent_event_id text, aggregate_type text, aggregate_id text, event_key text, consumer text,
    tenant_id text, from_ms bigint, to_ms bigint, unheard int)
CROSS JOIN postrider_event e
WHERE e.seq = ANY ($1)
  AND (f.topic IS NULL OR e.topic = f.topic)
  -- Metadata may name the trace: the caller checks it.
  AND (f.trace_id IS NULL OR e.trace_id = f.trace_id OR (coalesce(e.trace_id, '') = '' AND e.metadata LIKE '%"traceId"%'))
  AND (f.parent_event_id IS NULL OR e.parent_event_id = f.parent_event_id)
  AND (f.aggregate_type IS NULL OR e.aggregate_type = f.aggregate_type)
  AND (f.aggregate_id IS NULL OR e.aggregate_id = f.aggregate_id)
  AND (f.event_key IS NULL OR e.event_key = f.event_key)
  AND (f.tenant_id IS NULL OR e.tenant_id = f.tenant_id)
  AND (f.from_ms IS NULL OR e.created_at >= timestamptz 'epoch' + f.from_ms * interval '1 ms')
  AND (f.to_ms IS NULL OR e.created_at < timestamptz 'epoch' + f.to_ms * interval '1 ms')
  AND (f.unheard IS NULL OR e.waits_for <> '')
  AND (f.consumer IS NULL
       OR EXISTS (SELECT 1 FROM postrider_consumption c WHERE c.event_seq = e.seq AND c.consumer = f.consumer)
       OR EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq AND f.consumer IN (d.lane, d.target)))
