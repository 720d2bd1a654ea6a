-- How often each lane tries, as its relay or server is configured: for views and operators. No worker reads it. The lane `*` stands
-- for lanes without a row: those of pulling consumers, which the server serves.
CREATE TABLE IF NOT EXISTS postrider_lane (
    lane         VARCHAR(128) NOT NULL PRIMARY KEY,
    max_attempts INT NOT NULL,
    updated_at   DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

-- MySQL has no ADD … IF NOT EXISTS, and a migration that was interrupted runs again.
-- How many attempts the history had when a redrive set `attempts` to 0. With it, attempts without a trace can be counted.
SET @postrider_change = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'postrider_delivery' AND column_name = 'recorded_before'),
    'DO 0', 'ALTER TABLE postrider_delivery ADD COLUMN recorded_before INT NOT NULL DEFAULT 0');
PREPARE postrider_change FROM @postrider_change;
EXECUTE postrider_change;
-- Business keys of effects.
SET @postrider_change = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'postrider_inbox' AND index_name = 'postrider_inbox_key'),
    'DO 0', 'ALTER TABLE postrider_inbox ADD KEY postrider_inbox_key (idempotency_key)');
PREPARE postrider_change FROM @postrider_change;
EXECUTE postrider_change;
DEALLOCATE PREPARE postrider_change;

-- The classic outbox row, for people and scripts. For looking things up by event or aggregate, not for lists by status.
-- Asked column by column: a joined summary of the deliveries would be made of all of them, whichever event is wanted.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW postrider_outbox AS
SELECT e.event_id, e.topic, e.aggregate_type, e.aggregate_id,
       CASE WHEN EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq AND d.place = 3) THEN 'DEAD'
            WHEN EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq AND d.token IS NULL AND d.attempts > 0) THEN 'FAILED'
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
       (SELECT min(d.due_at) FROM postrider_delivery d WHERE d.event_seq = e.seq AND d.place < 2 AND d.token IS NULL) AS next_retry_at,
       (SELECT max(d.lock_owner) FROM postrider_delivery d WHERE d.event_seq = e.seq) AS lock_owner,
       (SELECT max(d.lock_time) FROM postrider_delivery d WHERE d.event_seq = e.seq) AS lock_time,
       (SELECT max(d.lock_until) FROM postrider_delivery d WHERE d.event_seq = e.seq) AS lock_until,
       (SELECT min(d.shard) FROM postrider_delivery d WHERE d.event_seq = e.seq) AS shard,
       (SELECT max(d.last_error) FROM postrider_delivery d WHERE d.event_seq = e.seq) AS last_error,
       e.created_at,
       greatest(e.created_at,
                coalesce((SELECT max(d.lock_time) FROM postrider_delivery d WHERE d.event_seq = e.seq), e.created_at),
                coalesce((SELECT max(c.created_at) FROM postrider_consumption c WHERE c.event_seq = e.seq), e.created_at)) AS updated_at,
       (SELECT min(c.created_at) FROM postrider_consumption c WHERE c.event_seq = e.seq AND c.success) AS sent_at
FROM postrider_event e;

-- What each consumer did with each event, one row for both. An untouched delivery is not in it.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW postrider_consume_log AS
SELECT i.consumer, i.event_id, i.topic, i.tenant_id, 'SUCCESS' AS status,
       coalesce(i.idempotency_key, i.event_id) AS idempotency_key, i.result, NULL AS error, i.received_at AS consumed_at
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
