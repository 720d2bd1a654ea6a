-- The log of deductions: one row for each key, with the request and how it ended. The service creates the table at its
-- start if it is missing. To create it by hand, run this in every shard database.
CREATE TABLE IF NOT EXISTS inventory_deduction_idempotency (
    id              INTEGER PRIMARY KEY,
    idempotency_key TEXT NOT NULL UNIQUE,
    order_id        TEXT,
    product_ids     TEXT,
    sku_ids         TEXT,
    quantities      TEXT,
    fingerprint     BLOB,
    status          TEXT NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED', 'RELEASED')),
    attempt         INTEGER NOT NULL,
    lease_until     INTEGER,
    error_message   TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS inventory_deduction_order ON inventory_deduction_idempotency (order_id);
CREATE INDEX IF NOT EXISTS inventory_deduction_status ON inventory_deduction_idempotency (status);
CREATE INDEX IF NOT EXISTS inventory_deduction_lease ON inventory_deduction_idempotency (lease_until);
