-- The events of claimed deliveries that say more than claim_events.sql reads. ?1 event seqs as JSON.
SELECT seq, event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id,
    parent_event_id, aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
    occurred_at, expire_at, deliver_at, max_attempts, exchange, routing_key,
    expire_at IS NOT NULL AND expire_at <= (SELECT now FROM postrider_clock)
FROM postrider_event WHERE seq IN (SELECT value FROM json_each(?1))
