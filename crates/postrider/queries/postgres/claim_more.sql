-- What claim.sql and claim_keyed.sql leave out of deliveries that say more than most. $1 event seqs, $2 token. Events never
-- change, so this may come after the claim; a delivery that was lost meanwhile is left out.
SELECT d.event_seq, d.id, d.target, e.payload_type, e.payload_encoding, e.parent_event_id, e.store_id, e.metadata,
    e.expire_at, e.deliver_at, e.max_attempts, e.exchange, e.routing_key, coalesce(e.expire_at <= now(), false)
FROM postrider_delivery d
-- OFFSET 0: from each delivery to its event, never the other way round, whatever was known of the tables when this was planned.
CROSS JOIN LATERAL (SELECT * FROM postrider_event WHERE seq = d.event_seq OFFSET 0) e
WHERE d.event_seq = ANY ($1) AND d.token = $2
