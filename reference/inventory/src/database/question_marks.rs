//! The statements for databases with `?` placeholders, with times in milliseconds since 1970 UTC. They differ in the
//! tables, the clock, and the row lock of a SELECT.

/// `statements!(tables, clock expression, row lock clause)`
macro_rules! statements {
    ($tables:expr, $now:literal, $for_update:literal) => {
        Statements {
            tables: $tables,
            find_place: "SELECT number, shards FROM inventory_place",
            take_place: "INSERT INTO inventory_place (one, number, shards) VALUES (1, ?, ?)",
            find_entry: concat!(
                "SELECT status, attempt, fingerprint, product_ids, coalesce(lease_until <= ",
                $now,
                ", false)
                FROM inventory_deduction_idempotency WHERE idempotency_key = ?"
            ),
            begin_entry: concat!(
                "INSERT INTO inventory_deduction_idempotency (idempotency_key, order_id, product_ids, sku_ids, quantities,
                    fingerprint, status, attempt, lease_until, created_at, updated_at)
                VALUES (?, ?, ?, ?, ?, ?, 'PROCESSING', 1, ",
                $now,
                " + ?, ",
                $now,
                ", ",
                $now,
                ")"
            ),
            retry_entry: concat!(
                "UPDATE inventory_deduction_idempotency
                SET status = 'PROCESSING', attempt = attempt + 1, error_message = NULL, lease_until = ",
                $now,
                " + ?, updated_at = ",
                $now,
                "
                WHERE idempotency_key = ? AND attempt = ?
                  AND (status = 'FAILED' OR (status = 'PROCESSING' AND lease_until <= ",
                $now,
                "))"
            ),
            end_entry: concat!(
                "UPDATE inventory_deduction_idempotency SET status = ?, error_message = ?, updated_at = ",
                $now,
                "
                WHERE idempotency_key = ? AND attempt = ? AND status = 'PROCESSING'"
            ),
            release_entry: concat!(
                "UPDATE inventory_deduction_idempotency SET status = 'RELEASED', lease_until = ",
                $now,
                " + ?, updated_at = ",
                $now,
                "
                WHERE idempotency_key = ? AND status <> 'RELEASED'"
            ),
            block_entry: concat!(
                "INSERT INTO inventory_deduction_idempotency (idempotency_key, status, attempt, created_at, updated_at)
                VALUES (?, 'RELEASED', 0, ",
                $now,
                ", ",
                $now,
                ")"
            ),
            settle_entry: "UPDATE inventory_deduction_idempotency SET lease_until = NULL
                WHERE idempotency_key = ? AND attempt = ? AND status = ? AND lease_until IS NOT NULL",
            overdue_entries: concat!(
                "SELECT idempotency_key FROM inventory_deduction_idempotency WHERE lease_until <= ",
                $now,
                " ORDER BY lease_until LIMIT ?"
            ),
            overdue_reservations: concat!(
                "SELECT idempotency_key FROM inventory_reservation WHERE status = 'RESERVED' AND created_at <= ",
                $now,
                " - ? ORDER BY created_at LIMIT ?"
            ),
            find_stock: "SELECT stock, reserved FROM inventory_stock WHERE product_id = ? AND sku_id = ?",
            lock_stock: concat!(
                "SELECT stock, reserved FROM inventory_stock WHERE product_id = ? AND sku_id = ?",
                $for_update
            ),
            add_product: "INSERT INTO inventory_stock (product_id, sku_id, stock, reserved) VALUES (?, ?, 0, 0)",
            put_in: "UPDATE inventory_stock SET stock = stock + ? WHERE product_id = ? AND sku_id = ?",
            record_intake: concat!(
                "INSERT INTO inventory_intake (product_id, sku_id, quantity, created_at) VALUES (?, ?, ?, ",
                $now,
                ")"
            ),
            hold: "UPDATE inventory_stock SET stock = stock - ?, reserved = reserved + ?
                WHERE product_id = ? AND sku_id = ? AND stock >= ?",
            deduct: "UPDATE inventory_stock SET reserved = reserved - ?
                WHERE product_id = ? AND sku_id = ? AND reserved >= ?",
            let_go: "UPDATE inventory_stock SET stock = stock + ?, reserved = reserved - ?
                WHERE product_id = ? AND sku_id = ? AND reserved >= ?",
            take_back: "UPDATE inventory_stock SET stock = stock + ? WHERE product_id = ? AND sku_id = ?",
            lock_reservations: concat!(
                "SELECT attempt, product_id, sku_id, quantity, status FROM inventory_reservation
                WHERE idempotency_key = ?",
                $for_update
            ),
            add_reservation: concat!(
                "INSERT INTO inventory_reservation
                    (idempotency_key, attempt, product_id, sku_id, quantity, status, created_at)
                VALUES (?, ?, ?, ?, ?, 'RESERVED', ",
                $now,
                ")"
            ),
            deduct_reservation: "UPDATE inventory_reservation SET status = 'DEDUCTED'
                WHERE idempotency_key = ? AND attempt = ? AND product_id = ? AND sku_id = ? AND status = 'RESERVED'",
            remove_reservation: "DELETE FROM inventory_reservation
                WHERE idempotency_key = ? AND attempt = ? AND product_id = ? AND sku_id = ?",
        }
    };
}
pub(super) use statements;
