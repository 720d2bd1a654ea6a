-- Writes the status of events. ?1 rows as JSON. Columns for actions of people are not changed.
INSERT INTO postrider_status AS s (event_seq, status, expected, consumed, failed, sent_at, last_sent_at, topic, service, tenant_id,
                                   created_at, expires_at, status_at, updated_at, last_error)
SELECT json_extract(value, '$.seq'), json_extract(value, '$.status'), json_extract(value, '$.expected'),
       json_extract(value, '$.consumed'), json_extract(value, '$.failed'), json_extract(value, '$.sent_ms'),
       json_extract(value, '$.last_sent_ms'), json_extract(value, '$.topic'), json_extract(value, '$.service'),
       json_extract(value, '$.tenant_id'), json_extract(value, '$.created_ms'), json_extract(value, '$.expires_ms'),
       (SELECT now FROM postrider_clock), json_extract(value, '$.updated_ms'), json_extract(value, '$.last_error')
FROM json_each(?1)
-- Without a WHERE, the parser reads ON as part of a join.
WHERE true
ON CONFLICT (event_seq) DO UPDATE
SET status = excluded.status, expected = excluded.expected, consumed = excluded.consumed, failed = excluded.failed,
    sent_at = excluded.sent_at, last_sent_at = excluded.last_sent_at, topic = excluded.topic, service = excluded.service,
    tenant_id = excluded.tenant_id, created_at = excluded.created_at, expires_at = excluded.expires_at,
    updated_at = excluded.updated_at, last_error = excluded.last_error,
    status_at = CASE WHEN s.status IS NOT excluded.status THEN excluded.status_at ELSE s.status_at END
