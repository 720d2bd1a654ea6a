-- Writes the status of events. $1 rows as JSON. Columns for actions of people are not changed.
INSERT INTO postrider_status AS s (event_seq, status, expected, consumed, failed, sent_at, last_sent_at, topic, service, tenant_id,
                                   created_at, expires_at, status_at, updated_at, last_error)
SELECT i.seq, i.status, i.expected, i.consumed, i.failed,
       timestamptz 'epoch' + i.sent_ms * interval '1 ms', timestamptz 'epoch' + i.last_sent_ms * interval '1 ms',
       i.topic, i.service, i.tenant_id, timestamptz 'epoch' + i.created_ms * interval '1 ms',
       timestamptz 'epoch' + i.expires_ms * interval '1 ms', now(), timestamptz 'epoch' + i.updated_ms * interval '1 ms', i.last_error
FROM json_to_recordset($1::json) AS i (
    seq bigint, status text, expected integer, consumed integer, failed integer, sent_ms bigint, last_sent_ms bigint,
    topic text, service text, tenant_id text, created_ms bigint, expires_ms bigint, updated_ms bigint, last_error text)
ON CONFLICT (event_seq) DO UPDATE
SET status = excluded.status, expected = excluded.expected, consumed = excluded.consumed, failed = excluded.failed,
    sent_at = excluded.sent_at, last_sent_at = excluded.last_sent_at, topic = excluded.topic, service = excluded.service,
    tenant_id = excluded.tenant_id, created_at = excluded.created_at, expires_at = excluded.expires_at,
    updated_at = excluded.updated_at, last_error = excluded.last_error,
    status_at = CASE WHEN s.status IS DISTINCT FROM excluded.status THEN excluded.status_at ELSE s.status_at END
