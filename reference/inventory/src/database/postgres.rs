//! PostgreSQL.

use super::statements::Statements;

pub(super) const LOG: &str = include_str!("log/postgres.sql");

pub(super) const STATEMENTS: Statements = Statements {
    // Concurrent CREATE TABLE IF NOT EXISTS statements can fail in PostgreSQL, so an advisory lock serializes them.
    tables: concat!(
        r#"
        SELECT pg_advisory_xact_lock(7090);
        CREATE TABLE IF NOT EXISTS inventory_place (
            one    int PRIMARY KEY CHECK (one = 1),
            number bigint NOT NULL,
            shards bigint NOT NULL
        );
        CREATE TABLE IF NOT EXISTS inventory_stock (
            product_id text NOT NULL,
            sku_id     text NOT NULL,
            stock      bigint NOT NULL CHECK (stock >= 0),
            reserved   bigint NOT NULL CHECK (reserved >= 0),
            PRIMARY KEY (product_id, sku_id)
        );
        CREATE TABLE IF NOT EXISTS inventory_intake (
            id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            product_id text NOT NULL,
            sku_id     text NOT NULL,
            quantity   bigint NOT NULL,
            created_at timestamptz NOT NULL
        );
        CREATE INDEX IF NOT EXISTS inventory_intake_product ON inventory_intake (product_id, sku_id);
        CREATE TABLE IF NOT EXISTS inventory_reservation (
            idempotency_key text NOT NULL,
            attempt         bigint NOT NULL,
            product_id      text NOT NULL,
            sku_id          text NOT NULL,
            quantity        bigint NOT NULL CHECK (quantity > 0),
            status          text NOT NULL CHECK (status IN ('RESERVED', 'DEDUCTED')),
            created_at      timestamptz NOT NULL,
            PRIMARY KEY (idempotency_key, attempt, product_id, sku_id)
        );
        CREATE INDEX IF NOT EXISTS inventory_reservation_status ON inventory_reservation (status, created_at);
"#,
        include_str!("log/postgres.sql")
    ),
    find_place: "SELECT number, shards FROM inventory_place",
    take_place: "INSERT INTO inventory_place (one, number, shards) VALUES (1, $1, $2)",
    find_entry: "SELECT status, attempt, fingerprint, product_ids, coalesce(lease_until <= clock_timestamp(), false)
        FROM inventory_deduction_idempotency WHERE idempotency_key = $1",
    begin_entry: "INSERT INTO inventory_deduction_idempotency (idempotency_key, order_id, product_ids, sku_ids,
            quantities, fingerprint, status, attempt, lease_until, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, 'PROCESSING', 1, clock_timestamp() + $7 * interval '1 ms', now(), now())",
    retry_entry: "UPDATE inventory_deduction_idempotency
        SET status = 'PROCESSING', attempt = attempt + 1, error_message = NULL,
            lease_until = clock_timestamp() + $1 * interval '1 ms', updated_at = now()
        WHERE idempotency_key = $2 AND attempt = $3
          AND (status = 'FAILED' OR (status = 'PROCESSING' AND lease_until <= clock_timestamp()))",
    end_entry: "UPDATE inventory_deduction_idempotency SET status = $1, error_message = $2, updated_at = now()
        WHERE idempotency_key = $3 AND attempt = $4 AND status = 'PROCESSING'",
    release_entry: "UPDATE inventory_deduction_idempotency
        SET status = 'RELEASED', lease_until = clock_timestamp() + $1 * interval '1 ms', updated_at = now()
        WHERE idempotency_key = $2 AND status <> 'RELEASED'",
    block_entry:
        "INSERT INTO inventory_deduction_idempotency (idempotency_key, status, attempt, created_at, updated_at)
        VALUES ($1, 'RELEASED', 0, now(), now())",
    settle_entry: "UPDATE inventory_deduction_idempotency SET lease_until = NULL
        WHERE idempotency_key = $1 AND attempt = $2 AND status = $3 AND lease_until IS NOT NULL",
    overdue_entries: "SELECT idempotency_key FROM inventory_deduction_idempotency
        WHERE lease_until <= now() ORDER BY lease_until LIMIT $1",
    overdue_reservations: "SELECT idempotency_key FROM inventory_reservation
        WHERE status = 'RESERVED' AND created_at <= now() - $1 * interval '1 ms' ORDER BY created_at LIMIT $2",
    find_stock: "SELECT stock, reserved FROM inventory_stock WHERE product_id = $1 AND sku_id = $2",
    lock_stock: "SELECT stock, reserved FROM inventory_stock WHERE product_id = $1 AND sku_id = $2 FOR UPDATE",
    add_product: "INSERT INTO inventory_stock (product_id, sku_id, stock, reserved) VALUES ($1, $2, 0, 0)",
    put_in: "UPDATE inventory_stock SET stock = stock + $1 WHERE product_id = $2 AND sku_id = $3",
    record_intake: "INSERT INTO inventory_intake (product_id, sku_id, quantity, created_at) VALUES ($1, $2, $3, now())",
    hold: "UPDATE inventory_stock SET stock = stock - $1, reserved = reserved + $2
        WHERE product_id = $3 AND sku_id = $4 AND stock >= $5",
    deduct: "UPDATE inventory_stock SET reserved = reserved - $1
        WHERE product_id = $2 AND sku_id = $3 AND reserved >= $4",
    let_go: "UPDATE inventory_stock SET stock = stock + $1, reserved = reserved - $2
        WHERE product_id = $3 AND sku_id = $4 AND reserved >= $5",
    take_back: "UPDATE inventory_stock SET stock = stock + $1 WHERE product_id = $2 AND sku_id = $3",
    lock_reservations: "SELECT attempt, product_id, sku_id, quantity, status FROM inventory_reservation
        WHERE idempotency_key = $1 ORDER BY attempt, product_id, sku_id FOR UPDATE",
    add_reservation: "INSERT INTO inventory_reservation
            (idempotency_key, attempt, product_id, sku_id, quantity, status, created_at)
        VALUES ($1, $2, $3, $4, $5, 'RESERVED', now())",
    deduct_reservation: "UPDATE inventory_reservation SET status = 'DEDUCTED'
        WHERE idempotency_key = $1 AND attempt = $2 AND product_id = $3 AND sku_id = $4 AND status = 'RESERVED'",
    remove_reservation: "DELETE FROM inventory_reservation
        WHERE idempotency_key = $1 AND attempt = $2 AND product_id = $3 AND sku_id = $4",
};
