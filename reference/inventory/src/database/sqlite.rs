//! SQLite. A transaction holds the only write lock from its beginning, so no row locks are needed.

use super::question_marks::statements;
use super::statements::Statements;

pub(super) const STATEMENTS: Statements = statements!(TABLES, "CAST(unixepoch('subsec') * 1000 AS INTEGER)", "");

pub(super) const LOG: &str = include_str!("log/sqlite.sql");

const TABLES: &str = concat!(
    "
    CREATE TABLE IF NOT EXISTS inventory_place (
        one    INTEGER PRIMARY KEY CHECK (one = 1),
        number INTEGER NOT NULL,
        shards INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS inventory_stock (
        product_id TEXT NOT NULL,
        sku_id     TEXT NOT NULL,
        stock      INTEGER NOT NULL CHECK (stock >= 0),
        reserved   INTEGER NOT NULL CHECK (reserved >= 0),
        PRIMARY KEY (product_id, sku_id)
    );
    CREATE TABLE IF NOT EXISTS inventory_intake (
        id         INTEGER PRIMARY KEY,
        product_id TEXT NOT NULL,
        sku_id     TEXT NOT NULL,
        quantity   INTEGER NOT NULL,
        created_at INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS inventory_intake_product ON inventory_intake (product_id, sku_id);
    CREATE TABLE IF NOT EXISTS inventory_reservation (
        idempotency_key TEXT NOT NULL,
        attempt         INTEGER NOT NULL,
        product_id      TEXT NOT NULL,
        sku_id          TEXT NOT NULL,
        quantity        INTEGER NOT NULL CHECK (quantity > 0),
        status          TEXT NOT NULL CHECK (status IN ('RESERVED', 'DEDUCTED')),
        created_at      INTEGER NOT NULL,
        PRIMARY KEY (idempotency_key, attempt, product_id, sku_id)
    );
    CREATE INDEX IF NOT EXISTS inventory_reservation_status ON inventory_reservation (status, created_at);
",
    include_str!("log/sqlite.sql")
);
