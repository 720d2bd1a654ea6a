-- How often each lane tries, as its relay or server is configured: for views and operators. No worker reads it. The lane `*` stands
-- for lanes without a row: those of pulling consumers, which the server serves.
CREATE TABLE postrider_lane (
    lane         varchar(128) COLLATE "C" PRIMARY KEY,
    max_attempts integer NOT NULL,
    updated_at   timestamptz NOT NULL DEFAULT now()
);

-- How many attempts the history had when a redrive set `attempts` to 0. With it, attempts without a trace can be counted.
ALTER TABLE postrider_delivery ADD COLUMN recorded_before integer NOT NULL DEFAULT 0;

-- Business keys of effects. Partial: a consumer that names none does not fill it.
CREATE INDEX postrider_inbox_key ON postrider_inbox (idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE OR REPLACE VIEW postrider_outbox AS
SELECT e.event_id, e.topic, e.aggregate_type, e.aggregate_id,
       CASE WHEN d.dead THEN 'DEAD'
            WHEN d.failed THEN 'FAILED'
            WHEN d.leased THEN 'PROCESSING'
            WHEN d.waiting OR e.waits_for IS NOT NULL THEN 'NEW'
            ELSE 'SENT' END AS status,
       coalesce(d.retry_count, 0) AS retry_count,
       coalesce(e.max_attempts,
                (SELECT max(l.max_attempts) FROM postrider_lane l
                 WHERE EXISTS (SELECT 1 FROM postrider_delivery o WHERE o.event_seq = e.seq AND o.lane = l.lane)
                    OR EXISTS (SELECT 1 FROM postrider_consumption o WHERE o.event_seq = e.seq AND o.consumer = l.lane)),
                (SELECT l.max_attempts FROM postrider_lane l WHERE l.lane = '*'),
                10) AS max_retry_count,
       d.next_retry_at, d.lock_owner, d.lock_time, d.lock_until, d.shard, d.last_error,
       e.created_at,
       greatest(e.created_at, d.lock_time, c.last_at) AS updated_at,
       c.sent_at
FROM postrider_event e
LEFT JOIN LATERAL (
    SELECT true AS waiting,
           bool_or(place = 3) AS dead,
           bool_or(token IS NULL AND attempts > 0 AND place <> 3) AS failed,
           bool_or(token IS NOT NULL) AS leased,
           max(CASE WHEN token IS NULL THEN attempts ELSE attempts - 1 END) AS retry_count,
           min(due_at) FILTER (WHERE place < 2 AND token IS NULL) AS next_retry_at,
           max(lock_owner) AS lock_owner, max(lock_time) AS lock_time, max(lock_until) AS lock_until,
           min(shard) AS shard, max(last_error) AS last_error
    FROM postrider_delivery WHERE event_seq = e.seq HAVING count(*) > 0
) d ON true
LEFT JOIN LATERAL (
    SELECT min(created_at) FILTER (WHERE success) AS sent_at, max(created_at) AS last_at
    FROM postrider_consumption WHERE event_seq = e.seq
) c ON true;

-- What each consumer did with each event, one row for both. An untouched delivery is not in it.
CREATE OR REPLACE VIEW postrider_consume_log AS
SELECT i.consumer, i.event_id, i.topic, i.tenant_id, 'SUCCESS' AS status,
       coalesce(i.idempotency_key, i.event_id) AS idempotency_key, i.result, NULL::text AS error, i.received_at AS consumed_at
FROM postrider_inbox i
UNION ALL
-- Successes without an inbox row: of consumers outside a transaction, over HTTP or behind a broker.
SELECT c.consumer, e.event_id, e.topic, e.tenant_id, 'SUCCESS', e.event_id, NULL, NULL, c.consumed_at
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
       CASE WHEN d.token IS NOT NULL THEN d.lock_time ELSE (
           SELECT max(c.consumed_at) FROM postrider_consumption c
           WHERE c.event_seq = d.event_seq AND c.consumer = CASE d.target WHEN '' THEN d.lane ELSE d.target END) END
FROM postrider_delivery d JOIN postrider_event e ON e.seq = d.event_seq
WHERE (d.token IS NOT NULL OR d.attempts > 0 OR d.place = 3) AND (d.lane <> 'rabbitmq' OR d.target <> '')
  AND NOT EXISTS (SELECT 1 FROM postrider_inbox i
                  WHERE i.consumer = CASE d.target WHEN '' THEN d.lane ELSE d.target END AND i.event_id = e.event_id)
  AND NOT EXISTS (SELECT 1 FROM postrider_consumption c
                  WHERE c.event_seq = d.event_seq AND c.consumer = CASE d.target WHEN '' THEN d.lane ELSE d.target END AND c.success)
UNION ALL
-- Failures without a tried delivery: reported from elsewhere, discarded, or redriven and not tried since.
SELECT c.consumer, e.event_id, e.topic, e.tenant_id, 'FAILED', e.event_id, NULL, c.error, c.consumed_at
FROM postrider_consumption c JOIN postrider_event e ON e.seq = c.event_seq
WHERE NOT c.success AND c.consumer <> 'rabbitmq'
  AND NOT EXISTS (SELECT 1 FROM postrider_consumption p
                  WHERE p.event_seq = c.event_seq AND p.consumer = c.consumer AND (p.success OR p.attempt > c.attempt))
  AND NOT EXISTS (SELECT 1 FROM postrider_inbox i WHERE i.consumer = c.consumer AND i.event_id = e.event_id)
  AND NOT EXISTS (SELECT 1 FROM postrider_delivery d
                  WHERE d.event_seq = c.event_seq AND c.consumer = CASE d.target WHEN '' THEN d.lane ELSE d.target END
                    AND (d.token IS NOT NULL OR d.attempts > 0 OR d.place = 3));
