-- Events, their deliveries and their history. Why the tables are cut this way: docs/decisions/0001-tables-and-tokens.md.
-- Text that is compared (ids, topics, keys, consumers, lanes) is collated "C": byte for byte, and cheap to index.

-- No CHECKs on the two tables that producers write: PostgreSQL reads and prepares each of them again for every INSERT
-- statement, which took half of its time. Lengths are in the types, and only of what is compared or seldom given: to cast a
-- value to varchar(n) costs as well, and the library has counted before.

CREATE TABLE postrider_event (
    seq              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id         varchar(64) COLLATE "C" NOT NULL UNIQUE,
    topic            varchar(128) COLLATE "C" NOT NULL,
    -- Text, not jsonb: nothing is renumbered or reordered, every string survives, and the commit is cheaper.
    payload          text NOT NULL,
    payload_type     varchar(128) NOT NULL DEFAULT 'application/json',
    -- base64, or NULL where the text is the payload itself.
    payload_encoding varchar(6),
    event_key        varchar(256) COLLATE "C",
    trace_id         text COLLATE "C",
    span_id          text COLLATE "C",
    parent_event_id  varchar(64) COLLATE "C",
    aggregate_type   text COLLATE "C",
    aggregate_id     text COLLATE "C",
    tenant_id        text COLLATE "C",
    store_id         varchar(128) COLLATE "C",
    initiator        text NOT NULL DEFAULT '{"service":"sql"}',
    metadata         varchar(16384),
    occurred_at      timestamptz NOT NULL DEFAULT now(),
    expire_at        timestamptz,
    deliver_at       timestamptz,
    max_attempts     smallint,
    exchange         varchar(255),
    routing_key      varchar(255),
    created_at       timestamptz NOT NULL DEFAULT now(),
    -- The one column that changes: what the event waits for. '' (after a plain INSERT) is the router, its topic is somebody who hears
    -- it, NULL is nothing: it has its deliveries.
    waits_for        text COLLATE "C" DEFAULT ''
);

-- Empty nearly always, so producers do not fill it. One for both kinds: predicates, too, are prepared with every INSERT.
CREATE INDEX postrider_event_waits ON postrider_event (waits_for, seq) WHERE waits_for IS NOT NULL;

CREATE TABLE postrider_delivery (
    -- First what is always there and what indexes hold: each look at a column walks over what comes before it, unless
    -- that has a fixed length and is never NULL.
    event_seq    bigint NOT NULL,
    -- Tells the deliveries of one event apart, and one from another that takes its place later. Has no index: whoever knows
    -- it knows the event too, and each index costs the producer.
    id           bigint GENERATED ALWAYS AS IDENTITY (CACHE 32),
    due_at       timestamptz NOT NULL,
    -- Where it stands in its lane: 0 open, without a key; 1 open, with a key; 2 held behind a dead one of its key; 3 dead.
    place        smallint NOT NULL,
    shard        smallint NOT NULL,
    attempts     smallint NOT NULL DEFAULT 0,
    lane         text COLLATE "C" NOT NULL,
    target       varchar(128) COLLATE "C" NOT NULL DEFAULT '',
    event_key    text COLLATE "C",
    -- What a claim changes, and the attempts. None of them may ever be in an index or in the predicate of one, or claims
    -- stop being HOT updates.
    token        bigint,
    lock_time    timestamptz,
    lock_until   timestamptz,
    lock_owner   varchar(128),
    last_error   varchar(1000),
    PRIMARY KEY (event_seq, lane, target)
-- Room for the leased version of every row on its own page: at 60 half of the claims were no HOT updates, and took twice
-- as long.
) WITH (fillfactor = 40);

-- The claim's index: in the order in which it takes deliveries, so that it never sorts. Not partial: a predicate is
-- prepared again for every INSERT too, and the place does as well.
CREATE INDEX postrider_delivery_due ON postrider_delivery (lane, place, due_at, id);
-- A key's deliveries in order.
CREATE INDEX postrider_delivery_key ON postrider_delivery (lane, event_key, event_seq) WHERE event_key IS NOT NULL;

CREATE TABLE postrider_subscription (
    topic       text COLLATE "C" NOT NULL
                CONSTRAINT topic_is_a_name_or_star CHECK (topic = '*' OR topic ~ '^[A-Za-z0-9._-]{1,128}$'),
    consumer    text COLLATE "C" NOT NULL
                CONSTRAINT consumer_is_a_name CHECK (consumer ~ '^[A-Za-z0-9._-]{1,128}$'),
    enabled     boolean NOT NULL DEFAULT true,
    -- An operator took it away; without the row a restart of the consumer would bring it back.
    removed     boolean NOT NULL DEFAULT false,
    sort_order  integer NOT NULL DEFAULT 0,
    description text,
    via         text NOT NULL DEFAULT 'pull'
                CONSTRAINT via_is_known CHECK (via IN ('local', 'pull', 'webhook', 'rabbitmq', 'external')),
    endpoint    text,
    exchange    text,
    routing_key text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    -- What follows, reckoned when a subscription is written, because every event asks: whether it counts; the lane that
    -- its deliveries wait in (NULL: it gets its events by its own means); whether it reports from elsewhere.
    heard       boolean NOT NULL GENERATED ALWAYS AS (enabled AND NOT removed) STORED,
    lane        text COLLATE "C" GENERATED ALWAYS AS
                (CASE via WHEN 'external' THEN NULL WHEN 'rabbitmq' THEN 'rabbitmq' ELSE consumer END) STORED,
    remote      boolean NOT NULL GENERATED ALWAYS AS (via IN ('rabbitmq', 'external') AND consumer <> 'rabbitmq') STORED,
    PRIMARY KEY (topic, consumer)
);

CREATE TABLE postrider_consumption (
    event_seq   bigint NOT NULL,
    consumer    text COLLATE "C" NOT NULL,
    attempt     integer NOT NULL,
    success     boolean,
    will_retry  boolean NOT NULL DEFAULT false,
    consumed_at timestamptz,
    error       text,
    code        text,
    callback_id text COLLATE "C",
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_seq, consumer, attempt)
);

CREATE TABLE postrider_inbox (
    consumer        text COLLATE "C" NOT NULL,
    -- Not a reference: the event may live in another database.
    event_id        text COLLATE "C" NOT NULL,
    topic           text COLLATE "C" NOT NULL,
    tenant_id       text COLLATE "C",
    idempotency_key text COLLATE "C",
    result          text,
    received_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)
);
CREATE INDEX postrider_inbox_received ON postrider_inbox (received_at);

CREATE TABLE postrider_idempotency (
    scope       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    status      text NOT NULL
                CONSTRAINT status_is_known CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED')),
    token       bigint NOT NULL,
    lock_until  timestamptz NOT NULL,
    result      text,
    error       text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key)
);
CREATE INDEX postrider_idempotency_updated ON postrider_idempotency (updated_at);

CREATE TABLE postrider_lease (
    name       text COLLATE "C" PRIMARY KEY,
    owner      text NOT NULL,
    token      bigint NOT NULL,
    lock_time  timestamptz NOT NULL,
    lock_until timestamptz NOT NULL
);

-- The classic outbox row, for people and scripts. For looking things up by event or aggregate, not for lists by status.
CREATE VIEW postrider_outbox AS
SELECT e.event_id, e.topic, e.aggregate_type, e.aggregate_id,
       CASE WHEN d.dead THEN 'DEAD'
            WHEN d.failed THEN 'FAILED'
            WHEN d.leased THEN 'PROCESSING'
            WHEN d.waiting OR e.waits_for IS NOT NULL THEN 'NEW'
            ELSE 'SENT' END AS status,
       coalesce(d.retry_count, 0) AS retry_count,
       coalesce(e.max_attempts, 10) AS max_retry_count,
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

-- What each consumer made of each event, one row for both. A delivery that nobody has touched is not in it.
CREATE VIEW postrider_consume_log AS
SELECT i.consumer, i.event_id, i.topic, i.tenant_id, 'SUCCESS' AS status,
       coalesce(i.idempotency_key, i.event_id) AS idempotency_key, i.result, NULL::text AS error, i.received_at AS consumed_at
FROM postrider_inbox i
UNION ALL
SELECT d.lane, e.event_id, e.topic, e.tenant_id,
       CASE WHEN d.token IS NOT NULL THEN 'PROCESSING' ELSE 'FAILED' END,
       e.event_id, NULL, d.last_error, NULL
FROM postrider_delivery d JOIN postrider_event e ON e.seq = d.event_seq
WHERE (d.token IS NOT NULL OR d.attempts > 0 OR d.place = 3)
  AND NOT EXISTS (SELECT 1 FROM postrider_inbox i WHERE i.consumer = d.lane AND i.event_id = e.event_id);
