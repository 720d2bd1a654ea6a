-- Events, their deliveries and their history. Why the tables are cut this way: docs/decisions/0001-tables-and-tokens.md.
-- Text is compared byte for byte (BINARY is SQLite's default). Times are milliseconds since 1970 in UTC. Nothing here is
-- newer than SQLite 3.35: defaults and checks run in whatever shell or program inserts by hand.

-- The database's clock, for statements: (SELECT now FROM postrider_clock). The default of a column may not hold a query
-- and repeats the expression. Days are stored as a float that is a fraction of a millisecond off: rounded, not cut.
CREATE VIEW postrider_clock AS
SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) AS now;

CREATE TABLE postrider_event (
    -- AUTOINCREMENT: without it the number of a pruned event would be handed out again.
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id         TEXT NOT NULL UNIQUE
                     CONSTRAINT event_id_has_1_to_64_characters
                     CHECK (typeof(event_id) = 'text' AND length(event_id) BETWEEN 1 AND 64),
    topic            TEXT NOT NULL
                     CONSTRAINT topic_is_1_to_128_of_letters_digits_dot_underscore_dash
                     CHECK (typeof(topic) = 'text' AND length(topic) BETWEEN 1 AND 128 AND topic NOT GLOB '*[^A-Za-z0-9._-]*'),
    payload          TEXT NOT NULL
                     CONSTRAINT payload_is_text CHECK (typeof(payload) = 'text')
                     -- A character has four bytes at most; only what is near the limit is counted in bytes.
                     CONSTRAINT payload_has_1_mib_at_most
                     CHECK (length(payload) <= 262144 OR length(CAST(payload AS BLOB)) <= 1048576),
    payload_type     TEXT NOT NULL DEFAULT 'application/json'
                     CONSTRAINT payload_type_has_1_to_128_characters CHECK (length(payload_type) BETWEEN 1 AND 128),
    payload_encoding TEXT
                     CONSTRAINT payload_encoding_is_base64_or_null CHECK (payload_encoding = 'base64'),
    event_key        TEXT
                     CONSTRAINT event_key_has_1_to_256_characters
                     CHECK (event_key IS NULL OR (typeof(event_key) = 'text' AND length(event_key) BETWEEN 1 AND 256)),
    trace_id         TEXT,
    span_id          TEXT,
    parent_event_id  TEXT,
    aggregate_type   TEXT,
    aggregate_id     TEXT,
    tenant_id        TEXT,
    store_id         TEXT,
    initiator        TEXT NOT NULL DEFAULT '{"service":"sql"}',
    metadata         TEXT
                     CONSTRAINT metadata_has_16_kib_at_most CHECK (length(CAST(metadata AS BLOB)) <= 16384),
    occurred_at      INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                     CONSTRAINT occurred_at_is_milliseconds_since_1970_utc CHECK (typeof(occurred_at) = 'integer'),
    expire_at        INTEGER
                     CONSTRAINT expire_at_is_milliseconds_since_1970_utc CHECK (typeof(expire_at) IN ('integer', 'null')),
    deliver_at       INTEGER
                     CONSTRAINT deliver_at_is_milliseconds_since_1970_utc CHECK (typeof(deliver_at) IN ('integer', 'null')),
    max_attempts     INTEGER
                     CONSTRAINT max_attempts_is_1_to_10000
                     CHECK (max_attempts IS NULL OR (typeof(max_attempts) = 'integer' AND max_attempts BETWEEN 1 AND 10000)),
    exchange         TEXT,
    routing_key      TEXT,
    created_at       INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                     CONSTRAINT created_at_is_milliseconds_since_1970_utc CHECK (typeof(created_at) = 'integer'),
    -- The one column that changes: what the event waits for. '' (after a plain INSERT) is the router, its topic is somebody who hears
    -- it, NULL is nothing: it has its deliveries.
    waits_for        TEXT DEFAULT ''
                     CONSTRAINT waits_for_is_null_empty_or_the_topic CHECK (waits_for IN ('', topic))
);

-- Empty nearly always, so producers do not pay for it. Every index of SQLite ends with the row's number, which here is seq.
CREATE INDEX postrider_event_waits ON postrider_event (waits_for) WHERE waits_for IS NOT NULL;

CREATE TABLE postrider_delivery (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    event_seq    INTEGER NOT NULL,
    due_at       INTEGER NOT NULL
                 CONSTRAINT due_at_is_milliseconds_since_1970_utc CHECK (typeof(due_at) = 'integer'),
    -- A claim writes these five and nothing else. None may ever be in an index or in the predicate of one, or every
    -- claim would rewrite that index.
    token        INTEGER,
    lock_time    INTEGER
                 CONSTRAINT lock_time_is_milliseconds_since_1970_utc CHECK (typeof(lock_time) IN ('integer', 'null')),
    lock_until   INTEGER
                 CONSTRAINT lock_until_is_milliseconds_since_1970_utc CHECK (typeof(lock_until) IN ('integer', 'null')),
    attempts     INTEGER NOT NULL DEFAULT 0,
    lock_owner   TEXT,
    shard        INTEGER NOT NULL,
    -- Given up, or waiting behind one of its key that is: out of the claim's sight.
    dead         INTEGER NOT NULL DEFAULT 0 CONSTRAINT dead_is_0_or_1 CHECK (dead IN (0, 1)),
    held         INTEGER NOT NULL DEFAULT 0 CONSTRAINT held_is_0_or_1 CHECK (held IN (0, 1)),
    lane         TEXT NOT NULL,
    target       TEXT NOT NULL DEFAULT '',
    event_key    TEXT,
    last_error   TEXT,
    UNIQUE (event_seq, lane, target)
);

-- The claim's indexes: in the order in which it takes them (the id comes last by itself), so that it never sorts.
CREATE INDEX postrider_delivery_due ON postrider_delivery (lane, due_at)
    WHERE event_key IS NULL AND NOT dead AND NOT held;
CREATE INDEX postrider_delivery_due_keyed ON postrider_delivery (lane, due_at)
    WHERE event_key IS NOT NULL AND NOT dead AND NOT held;
-- A key's deliveries in order.
CREATE INDEX postrider_delivery_key ON postrider_delivery (lane, event_key, event_seq) WHERE event_key IS NOT NULL;
CREATE INDEX postrider_delivery_dead ON postrider_delivery (lane) WHERE dead;
CREATE INDEX postrider_delivery_held ON postrider_delivery (lane, event_key) WHERE held;

CREATE TABLE postrider_subscription (
    topic       TEXT NOT NULL
                CONSTRAINT topic_is_a_name_or_star
                CHECK (topic = '*' OR (length(topic) BETWEEN 1 AND 128 AND topic NOT GLOB '*[^A-Za-z0-9._-]*')),
    consumer    TEXT NOT NULL
                CONSTRAINT consumer_is_a_name
                CHECK (length(consumer) BETWEEN 1 AND 128 AND consumer NOT GLOB '*[^A-Za-z0-9._-]*'),
    enabled     INTEGER NOT NULL DEFAULT 1 CONSTRAINT enabled_is_0_or_1 CHECK (enabled IN (0, 1)),
    -- An operator took it away; without the row a restart of the consumer would bring it back.
    removed     INTEGER NOT NULL DEFAULT 0 CONSTRAINT removed_is_0_or_1 CHECK (removed IN (0, 1)),
    sort_order  INTEGER NOT NULL DEFAULT 0,
    description TEXT,
    via         TEXT NOT NULL DEFAULT 'pull'
                CONSTRAINT via_is_known CHECK (via IN ('local', 'pull', 'webhook', 'rabbitmq', 'external')),
    endpoint    TEXT,
    exchange    TEXT,
    routing_key TEXT,
    created_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                CONSTRAINT created_at_is_milliseconds_since_1970_utc CHECK (typeof(created_at) = 'integer'),
    updated_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                CONSTRAINT updated_at_is_milliseconds_since_1970_utc CHECK (typeof(updated_at) = 'integer'),
    PRIMARY KEY (topic, consumer)
) WITHOUT ROWID;

CREATE TABLE postrider_consumption (
    event_seq   INTEGER NOT NULL,
    consumer    TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    success     INTEGER CONSTRAINT success_is_0_or_1 CHECK (success IN (0, 1)),
    will_retry  INTEGER NOT NULL DEFAULT 0 CONSTRAINT will_retry_is_0_or_1 CHECK (will_retry IN (0, 1)),
    consumed_at INTEGER
                CONSTRAINT consumed_at_is_milliseconds_since_1970_utc CHECK (typeof(consumed_at) IN ('integer', 'null')),
    error       TEXT,
    code        TEXT,
    callback_id TEXT,
    created_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                CONSTRAINT created_at_is_milliseconds_since_1970_utc CHECK (typeof(created_at) = 'integer'),
    PRIMARY KEY (event_seq, consumer, attempt)
) WITHOUT ROWID;

CREATE TABLE postrider_inbox (
    consumer        TEXT NOT NULL,
    -- Not a reference: the event may live in another database.
    event_id        TEXT NOT NULL,
    topic           TEXT NOT NULL,
    tenant_id       TEXT,
    idempotency_key TEXT,
    result          TEXT,
    received_at     INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                    CONSTRAINT received_at_is_milliseconds_since_1970_utc CHECK (typeof(received_at) = 'integer'),
    PRIMARY KEY (consumer, event_id)
);
CREATE INDEX postrider_inbox_received ON postrider_inbox (received_at);

CREATE TABLE postrider_idempotency (
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    status      TEXT NOT NULL
                CONSTRAINT status_is_known CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED')),
    token       INTEGER NOT NULL,
    lock_until  INTEGER NOT NULL
                CONSTRAINT lock_until_is_milliseconds_since_1970_utc CHECK (typeof(lock_until) = 'integer'),
    result      TEXT,
    error       TEXT,
    created_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                CONSTRAINT created_at_is_milliseconds_since_1970_utc CHECK (typeof(created_at) = 'integer'),
    updated_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                CONSTRAINT updated_at_is_milliseconds_since_1970_utc CHECK (typeof(updated_at) = 'integer'),
    PRIMARY KEY (scope, key)
);
CREATE INDEX postrider_idempotency_updated ON postrider_idempotency (updated_at);

CREATE TABLE postrider_lease (
    name       TEXT PRIMARY KEY NOT NULL,
    owner      TEXT NOT NULL,
    token      INTEGER NOT NULL,
    lock_time  INTEGER NOT NULL
               CONSTRAINT lock_time_is_milliseconds_since_1970_utc CHECK (typeof(lock_time) = 'integer'),
    lock_until INTEGER NOT NULL
               CONSTRAINT lock_until_is_milliseconds_since_1970_utc CHECK (typeof(lock_until) = 'integer')
) WITHOUT ROWID;

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
       coalesce(e.max_attempts, 10) AS max_retry_count,
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

-- What each consumer made of each event, one row for both. A delivery that nobody has touched is not in it.
CREATE VIEW postrider_consume_log AS
SELECT i.consumer, i.event_id, i.topic, i.tenant_id, 'SUCCESS' AS status,
       coalesce(i.idempotency_key, i.event_id) AS idempotency_key, i.result, NULL AS error,
       strftime('%Y-%m-%dT%H:%M:%fZ', i.received_at / 1000.0, 'unixepoch') AS consumed_at
FROM postrider_inbox i
UNION ALL
SELECT d.lane, e.event_id, e.topic, e.tenant_id,
       CASE WHEN d.token IS NOT NULL THEN 'PROCESSING' ELSE 'FAILED' END,
       e.event_id, NULL, d.last_error, NULL
FROM postrider_delivery d JOIN postrider_event e ON e.seq = d.event_seq
WHERE (d.token IS NOT NULL OR d.attempts > 0 OR d.dead)
  AND NOT EXISTS (SELECT 1 FROM postrider_inbox i WHERE i.consumer = d.lane AND i.event_id = e.event_id);
