-- The events of claimed deliveries, as far as most have something to say, and whether one says more: each column costs,
-- also where it is empty. ?1 event seqs as JSON. Events never change, so this may come after the claim.
SELECT seq, event_id, topic, event_key, payload, payload_type, trace_id, span_id, aggregate_type, aggregate_id, initiator,
    occurred_at,
    coalesce(payload_encoding, parent_event_id, tenant_id, store_id, metadata, expire_at, deliver_at, max_attempts,
        exchange, routing_key) IS NOT NULL
FROM postrider_event WHERE seq IN (SELECT value FROM json_each(?1))
