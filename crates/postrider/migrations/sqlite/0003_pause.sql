-- Lanes whose deliveries nobody claims, until an operator resumes them.
CREATE TABLE postrider_pause (
    lane      TEXT NOT NULL PRIMARY KEY,
    paused_at INTEGER NOT NULL
);
