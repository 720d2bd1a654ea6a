-- Which processes run and what each of them does, and which alerts are open.

-- One row per process, written again every few seconds. A row that is not written any more belongs to a process that has died.
CREATE TABLE postrider_instance (
    instance_id varchar(128) COLLATE "C" PRIMARY KEY,
    role        varchar(32) NOT NULL,
    version     varchar(32) NOT NULL,
    -- JSON: the lanes and loops that it runs, and the state of its broker.
    state       text NOT NULL,
    started_at  timestamptz NOT NULL,
    seen_at     timestamptz NOT NULL
);

-- The alerts that fire, and those whose end is not sent yet.
CREATE TABLE postrider_alert (
    alert    varchar(32) COLLATE "C" NOT NULL,
    -- The consumer, where an alert is about one.
    subject  varchar(128) COLLATE "C" NOT NULL,
    alert_id varchar(64) COLLATE "C" NOT NULL,
    since    timestamptz NOT NULL,
    -- JSON: what is sent.
    details  text NOT NULL,
    -- Whether its beginning was sent.
    sent     boolean NOT NULL DEFAULT false,
    over_at  timestamptz,
    PRIMARY KEY (alert, subject)
);
