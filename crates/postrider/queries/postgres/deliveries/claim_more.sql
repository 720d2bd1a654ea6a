-- Reads the columns that claim_fetch.sql omits, for events that use them. $1 event seqs.
SELECT seq, payload_type, payload_encoding, parent_event_id, store_id, metadata, expire_at, deliver_at, max_attempts, exchange,
    routing_key, coalesce(expire_at <= now(), false)
FROM postrider_event
WHERE seq = ANY ($1)
