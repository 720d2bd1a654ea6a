-- The log of deductions: one row for each key, with the request and how it ended. The service creates the table at its
-- start if it is missing. To create it by hand, run this in every shard database.
CREATE TABLE IF NOT EXISTS inventory_deduction_idempotency (
    id              BIGINT PRIMARY KEY AUTO_INCREMENT,
    idempotency_key VARCHAR(255) NOT NULL UNIQUE,
    order_id        VARCHAR(64),
    product_ids     MEDIUMTEXT,
    sku_ids         MEDIUMTEXT,
    quantities      MEDIUMTEXT,
    fingerprint     VARBINARY(255),
    status          VARCHAR(20) NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED', 'RELEASED')),
    attempt         BIGINT NOT NULL,
    lease_until     BIGINT,
    error_message   TEXT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    KEY inventory_deduction_order (order_id),
    KEY inventory_deduction_status (status),
    KEY inventory_deduction_lease (lease_until)
) CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
