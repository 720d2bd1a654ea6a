-- Writes the status of events. ? rows as JSON. Columns for actions of people are not changed.
INSERT INTO postrider_status (event_seq, status, expected, consumed, failed, sent_at, last_sent_at, topic, service, tenant_id,
                              created_at, expires_at, status_at, updated_at, last_error)
SELECT i.seq, i.status, i.expected, i.consumed, i.failed,
       TIMESTAMP '1970-01-01 00:00:00' + INTERVAL i.sent_ms * 1000 MICROSECOND,
       TIMESTAMP '1970-01-01 00:00:00' + INTERVAL i.last_sent_ms * 1000 MICROSECOND,
       i.topic, i.service, i.tenant_id,
       TIMESTAMP '1970-01-01 00:00:00' + INTERVAL i.created_ms * 1000 MICROSECOND,
       TIMESTAMP '1970-01-01 00:00:00' + INTERVAL i.expires_ms * 1000 MICROSECOND,
       UTC_TIMESTAMP(6),
       TIMESTAMP '1970-01-01 00:00:00' + INTERVAL i.updated_ms * 1000 MICROSECOND, i.last_error
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$.seq', status VARCHAR(8) CHARACTER SET utf8mb4 PATH '$.status', expected INT PATH '$.expected',
    consumed INT PATH '$.consumed', failed INT PATH '$.failed', sent_ms BIGINT PATH '$.sent_ms',
    last_sent_ms BIGINT PATH '$.last_sent_ms', topic VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.topic',
    service VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.service', tenant_id VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.tenant_id',
    created_ms BIGINT PATH '$.created_ms', expires_ms BIGINT PATH '$.expires_ms', updated_ms BIGINT PATH '$.updated_ms',
    last_error VARCHAR(1000) CHARACTER SET utf8mb4 PATH '$.last_error')) i
-- status_at comes first: the lines that follow see the changed row.
ON DUPLICATE KEY UPDATE
    status_at = CASE WHEN postrider_status.status <=> VALUES(status) THEN postrider_status.status_at ELSE VALUES(status_at) END,
    status = VALUES(status), expected = VALUES(expected), consumed = VALUES(consumed), failed = VALUES(failed),
    sent_at = VALUES(sent_at), last_sent_at = VALUES(last_sent_at), topic = VALUES(topic), service = VALUES(service),
    tenant_id = VALUES(tenant_id), created_at = VALUES(created_at), expires_at = VALUES(expires_at),
    updated_at = VALUES(updated_at), last_error = VALUES(last_error)
