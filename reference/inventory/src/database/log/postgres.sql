-- The log of deductions: one row for each key, with the request and how it ended. The service creates the table at its
-- start if it is missing. To create it by hand, run this in every shard database.
CREATE TABLE IF NOT EXISTS inventory_deduction_idempotency (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idempotency_key text NOT NULL UNIQUE,
    order_id        text,
    product_ids     text,
    sku_ids         text,
    quantities      text,
    fingerprint     bytea,
    status          text NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED', 'RELEASED')),
    attempt         bigint NOT NULL,
    lease_until     timestamptz,
    error_message   text,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS inventory_deduction_order ON inventory_deduction_idempotency (order_id);
CREATE INDEX IF NOT EXISTS inventory_deduction_status ON inventory_deduction_idempotency (status);
CREATE INDEX IF NOT EXISTS inventory_deduction_lease ON inventory_deduction_idempotency (lease_until);
