-- Events, their deliveries and their history, for MySQL and MariaDB. Why the tables are cut this way:
-- docs/decisions/0001-tables-and-tokens.md; what is different here: docs/decisions/0006-mysql.md.
--
-- Every table compares text byte for byte, trailing spaces included. The collation that does has another name on each
-- server; each reads only the comment that is its own. Times are UTC, whatever the session's time zone.
--
-- A CREATE commits by itself, so a migration that dies in between is run again from the top: everything here can be.

CREATE TABLE IF NOT EXISTS postrider_event (
    seq              BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    event_id         VARCHAR(64) NOT NULL,
    topic            VARCHAR(128) NOT NULL,
    -- Text, not JSON: MySQL would reorder and renumber it.
    payload          MEDIUMTEXT NOT NULL,
    payload_type     VARCHAR(128) NOT NULL DEFAULT 'application/json',
    -- base64, or NULL where the text is the payload itself.
    payload_encoding VARCHAR(6),
    event_key        VARCHAR(256),
    trace_id         VARCHAR(128),
    span_id          VARCHAR(128),
    parent_event_id  VARCHAR(64),
    aggregate_type   VARCHAR(128),
    aggregate_id     VARCHAR(128),
    tenant_id        VARCHAR(128),
    store_id         VARCHAR(128),
    initiator        VARCHAR(4096) NOT NULL DEFAULT '{"service":"sql"}',
    metadata         TEXT,
    occurred_at      DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    expire_at        DATETIME(6),
    deliver_at       DATETIME(6),
    max_attempts     SMALLINT,
    exchange         VARCHAR(255),
    routing_key      VARCHAR(255),
    created_at       DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    -- The one column that changes: what the event waits for. '' (after a plain INSERT) is the router, its topic is somebody who hears
    -- it, NULL is nothing: it has its deliveries.
    -- There are no partial indexes here, and NULL makes the shortest entry.
    waits_for        VARCHAR(128) DEFAULT '',
    UNIQUE KEY postrider_event_id (event_id),
    -- Every index ends with the primary key, here and below.
    KEY postrider_event_waits (waits_for)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

CREATE TABLE IF NOT EXISTS postrider_delivery (
    -- The primary key, so that whoever writes results locks these rows and no neighbours.
    id           BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    event_seq    BIGINT NOT NULL,
    due_at       DATETIME(6) NOT NULL,
    -- What a claim changes. None of them may ever be in an index, or every claim would rewrite it.
    token        BIGINT,
    lock_time    DATETIME(6),
    lock_until   DATETIME(6),
    attempts     SMALLINT NOT NULL DEFAULT 0,
    lock_owner   VARCHAR(128),
    shard        TINYINT NOT NULL,
    -- Where it stands in its lane: 0 open, without a key; 1 open, with a key; 2 held behind a dead one of its key; 3 dead.
    place        TINYINT NOT NULL,
    lane         VARCHAR(128) NOT NULL,
    target       VARCHAR(128) NOT NULL DEFAULT '',
    event_key    VARCHAR(256),
    last_error   VARCHAR(1000),
    UNIQUE KEY postrider_delivery_event (event_seq, lane, target),
    -- The claim's index: in the order in which it takes deliveries, so that it never sorts.
    KEY postrider_delivery_due (lane, place, due_at),
    -- A key's deliveries in order.
    KEY postrider_delivery_key (event_key, lane, event_seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

CREATE TABLE IF NOT EXISTS postrider_subscription (
    topic       VARCHAR(128) NOT NULL,
    consumer    VARCHAR(128) NOT NULL,
    enabled     BOOLEAN NOT NULL DEFAULT TRUE,
    -- An operator took it away; without the row a restart of the consumer would bring it back.
    removed     BOOLEAN NOT NULL DEFAULT FALSE,
    sort_order  INT NOT NULL DEFAULT 0,
    description TEXT,
    via         VARCHAR(8) NOT NULL DEFAULT 'pull',
    endpoint    TEXT,
    exchange    VARCHAR(255),
    routing_key VARCHAR(255),
    created_at  DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at  DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (topic, consumer),
    CONSTRAINT postrider_topic_is_a_name_or_star CHECK (topic = '*' OR topic REGEXP '^[A-Za-z0-9._-]{1,128}$'),
    CONSTRAINT postrider_consumer_is_a_name CHECK (consumer REGEXP '^[A-Za-z0-9._-]{1,128}$'),
    CONSTRAINT postrider_via_is_known CHECK (via IN ('local', 'pull', 'webhook', 'rabbitmq', 'external'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

CREATE TABLE IF NOT EXISTS postrider_consumption (
    event_seq   BIGINT NOT NULL,
    consumer    VARCHAR(128) NOT NULL,
    attempt     INT NOT NULL,
    success     BOOLEAN,
    will_retry  BOOLEAN NOT NULL DEFAULT FALSE,
    consumed_at DATETIME(6),
    error       VARCHAR(1000),
    code        VARCHAR(1000),
    callback_id TEXT,
    created_at  DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (event_seq, consumer, attempt)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

CREATE TABLE IF NOT EXISTS postrider_inbox (
    consumer        VARCHAR(128) NOT NULL,
    -- Not a reference: the event may live in another database.
    event_id        VARCHAR(64) NOT NULL,
    topic           VARCHAR(128) NOT NULL,
    tenant_id       VARCHAR(128),
    idempotency_key VARCHAR(256),
    result          MEDIUMTEXT,
    received_at     DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (consumer, event_id),
    KEY postrider_inbox_received (received_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

CREATE TABLE IF NOT EXISTS postrider_idempotency (
    scope       VARCHAR(128) NOT NULL,
    `key`       VARCHAR(256) NOT NULL,
    fingerprint VARBINARY(255) NOT NULL,
    status      VARCHAR(10) NOT NULL,
    token       BIGINT NOT NULL,
    lock_until  DATETIME(6) NOT NULL,
    result      MEDIUMTEXT,
    error       VARCHAR(1000),
    created_at  DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at  DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (scope, `key`),
    KEY postrider_idempotency_updated (updated_at),
    CONSTRAINT postrider_status_is_known CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

CREATE TABLE IF NOT EXISTS postrider_lease (
    name       VARCHAR(128) NOT NULL PRIMARY KEY,
    owner      VARCHAR(128) NOT NULL,
    token      BIGINT NOT NULL,
    lock_time  DATETIME(6) NOT NULL,
    lock_until DATETIME(6) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

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
       coalesce(e.max_attempts, 10) AS max_retry_count,
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

-- What each consumer made of each event, one row for both. A delivery that nobody has touched is not in it.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW postrider_consume_log AS
SELECT i.consumer, i.event_id, i.topic, i.tenant_id, 'SUCCESS' AS status,
       coalesce(i.idempotency_key, i.event_id) AS idempotency_key, i.result, NULL AS error, i.received_at AS consumed_at
FROM postrider_inbox i
UNION ALL
SELECT d.lane, e.event_id, e.topic, e.tenant_id,
       CASE WHEN d.token IS NOT NULL THEN 'PROCESSING' ELSE 'FAILED' END,
       e.event_id, NULL, d.last_error, NULL
FROM postrider_delivery d JOIN postrider_event e ON e.seq = d.event_seq
WHERE (d.token IS NOT NULL OR d.attempts > 0 OR d.place = 3)
  AND NOT EXISTS (SELECT 1 FROM postrider_inbox i WHERE i.consumer = d.lane AND i.event_id = e.event_id);
