-- Takes the event and its delivery, if there is one. $1 event id, $2 lane, $3 target.
SELECT e.seq, e.event_id, e.event_key, e.expire_at IS NOT NULL AND e.expire_at <= now() AS expired,
       d.id, d.token IS NOT NULL AND d.lock_until > now() AS leased
FROM postrider_event e
LEFT JOIN postrider_delivery d ON d.event_seq = e.seq AND d.lane = $2 AND d.target = $3
WHERE e.event_id = $1
FOR UPDATE OF e
