-- Lanes whose deliveries nobody claims, until an operator resumes them.
CREATE TABLE postrider_pause (
    lane      varchar(128) COLLATE "C" PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);
