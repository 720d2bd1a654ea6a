-- How often each lane tries, as its relay or server is configured: for views and operators. No worker reads it. The lane `*` stands
-- for lanes without a row: those of pulling consumers, which the server serves.
CREATE TABLE postrider_lane (
    lane         TEXT PRIMARY KEY NOT NULL,
    max_attempts INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                 CONSTRAINT updated_at_is_milliseconds_since_1970_utc CHECK (typeof(updated_at) = 'integer')
) WITHOUT ROWID;

-- How many attempts the history had when a redrive set `attempts` to 0. With it, attempts without a trace can be counted.
ALTER TABLE postrider_delivery ADD COLUMN recorded_before INTEGER NOT NULL DEFAULT 0;

-- Business keys of effects. Partial: a consumer that names none does not fill it.
CREATE INDEX postrider_inbox_key ON postrider_inbox (idempotency_key) WHERE idempotency_key IS NOT NULL;

DROP VIEW postrider_outbox;
DROP VIEW postrider_consume_log;

-- The classic outbox row, for people and scripts: times as text. For looking things up by event or aggregate, not for
-- lists by status. One query per column, because joined groups would be built for every event before one is chosen.
CREATE VIEW postrider_outbox AS
SELECT e.event_id, e.topic, e.aggregate_type, e.aggregate_id,
       CASE WHEN EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq AND d.dead) THEN 'DEAD'
            WHEN EXISTS (SELECT 1 FROM postrider_delivery d
                         WHERE d.event_seq = e.seq AND d.token IS NULL AND d.attempts > 0 AND NOT d.dead) THEN 'FAILED'
            WHEN EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq AND d.token IS NOT NULL) THEN 'PROCESSING'
            WHEN e.waits_for IS NOT NULL OR EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq) THEN 'NEW'
            ELSE 'SENT' END AS status,
       coalesce((SELECT max(CASE WHEN d.token IS NULL THEN d.attempts ELSE d.attempts - 1 END)
                 FROM postrider_delivery d WHERE d.event_seq = e.seq), 0) AS retry_count,
       coalesce(e.max_attempts,
                (SELECT max(l.max_attempts) FROM postrider_lane l
                 WHERE EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq AND d.lane = l.lane)
                    OR EXISTS (SELECT 1 FROM postrider_consumption c WHERE c.event_seq = e.seq AND c.consumer = l.lane)),
                (SELECT l.max_attempts FROM postrider_lane l WHERE l.lane = '*'),
                10) AS max_retry_count,
       (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(d.due_at) / 1000.0, 'unixepoch') FROM postrider_delivery d
        WHERE d.event_seq = e.seq AND NOT d.dead AND NOT d.held AND d.token IS NULL) AS next_retry_at,
       (SELECT max(d.lock_owner) FROM postrider_delivery d WHERE d.event_seq = e.seq) AS lock_owner,
       (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', max(d.lock_time) / 1000.0, 'unixepoch')
        FROM postrider_delivery d WHERE d.event_seq = e.seq) AS lock_time,
       (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', max(d.lock_until) / 1000.0, 'unixepoch')
        FROM postrider_delivery d WHERE d.event_seq = e.seq) AS lock_until,
       (SELECT min(d.shard) FROM postrider_delivery d WHERE d.event_seq = e.seq) AS shard,
       (SELECT max(d.last_error) FROM postrider_delivery d WHERE d.event_seq = e.seq) AS last_error,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.created_at / 1000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', max(
           e.created_at,
           coalesce((SELECT max(d.lock_time) FROM postrider_delivery d WHERE d.event_seq = e.seq), 0),
           coalesce((SELECT max(c.created_at) FROM postrider_consumption c WHERE c.event_seq = e.seq), 0)
       ) / 1000.0, 'unixepoch') AS updated_at,
       (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(c.created_at) / 1000.0, 'unixepoch')
        FROM postrider_consumption c WHERE c.event_seq = e.seq AND c.success) AS sent_at
FROM postrider_event e;

-- What each consumer did with each event, one row for both. An untouched delivery is not in it.
CREATE VIEW postrider_consume_log AS
SELECT i.consumer, i.event_id, i.topic, i.tenant_id, 'SUCCESS' AS status,
       coalesce(i.idempotency_key, i.event_id) AS idempotency_key, i.result, NULL AS error,
       strftime('%Y-%m-%dT%H:%M:%fZ', i.received_at / 1000.0, 'unixepoch') AS consumed_at
FROM postrider_inbox i
UNION ALL
-- Successes without an inbox row: of consumers outside a transaction, over HTTP or behind a broker.
SELECT c.consumer, e.event_id, e.topic, e.tenant_id, 'SUCCESS', e.event_id, NULL, NULL,
       strftime('%Y-%m-%dT%H:%M:%fZ', c.consumed_at / 1000.0, 'unixepoch')
FROM postrider_consumption c JOIN postrider_event e ON e.seq = c.event_seq
WHERE c.success AND c.consumer <> 'rabbitmq'
  AND NOT EXISTS (SELECT 1 FROM postrider_consumption p
                  WHERE p.event_seq = c.event_seq AND p.consumer = c.consumer AND p.attempt < c.attempt AND p.success)
  AND NOT EXISTS (SELECT 1 FROM postrider_inbox i WHERE i.consumer = c.consumer AND i.event_id = e.event_id)
UNION ALL
-- Deliveries that were tried.
SELECT CASE d.target WHEN '' THEN d.lane ELSE d.target END, e.event_id, e.topic, e.tenant_id,
       CASE WHEN d.token IS NOT NULL THEN 'PROCESSING' ELSE 'FAILED' END,
       e.event_id, NULL, d.last_error,
       CASE WHEN d.token IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%fZ', d.lock_time / 1000.0, 'unixepoch') ELSE (
           SELECT strftime('%Y-%m-%dT%H:%M:%fZ', max(c.consumed_at) / 1000.0, 'unixepoch') FROM postrider_consumption c
           WHERE c.event_seq = d.event_seq AND c.consumer = CASE d.target WHEN '' THEN d.lane ELSE d.target END) END
FROM postrider_delivery d JOIN postrider_event e ON e.seq = d.event_seq
WHERE (d.token IS NOT NULL OR d.attempts > 0 OR d.dead) AND (d.lane <> 'rabbitmq' OR d.target <> '')
  AND NOT EXISTS (SELECT 1 FROM postrider_inbox i
                  WHERE i.consumer = CASE d.target WHEN '' THEN d.lane ELSE d.target END AND i.event_id = e.event_id)
  AND NOT EXISTS (SELECT 1 FROM postrider_consumption c
                  WHERE c.event_seq = d.event_seq AND c.consumer = CASE d.target WHEN '' THEN d.lane ELSE d.target END AND c.success)
UNION ALL
-- Failures without a tried delivery: reported from elsewhere, discarded, or redriven and not tried since.
SELECT c.consumer, e.event_id, e.topic, e.tenant_id, 'FAILED', e.event_id, NULL, c.error,
       strftime('%Y-%m-%dT%H:%M:%fZ', c.consumed_at / 1000.0, 'unixepoch')
FROM postrider_consumption c JOIN postrider_event e ON e.seq = c.event_seq
WHERE NOT c.success AND c.consumer <> 'rabbitmq'
  AND NOT EXISTS (SELECT 1 FROM postrider_consumption p
                  WHERE p.event_seq = c.event_seq AND p.consumer = c.consumer AND (p.success OR p.attempt > c.attempt))
  AND NOT EXISTS (SELECT 1 FROM postrider_inbox i WHERE i.consumer = c.consumer AND i.event_id = e.event_id)
  AND NOT EXISTS (SELECT 1 FROM postrider_delivery d
                  WHERE d.event_seq = c.event_seq AND c.consumer = CASE d.target WHEN '' THEN d.lane ELSE d.target END
                    AND (d.token IS NOT NULL OR d.attempts > 0 OR d.dead));
