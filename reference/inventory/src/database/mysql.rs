//! MySQL and MariaDB. A CREATE commits by itself, so every statement must be repeatable.

use super::question_marks::statements;
use super::statements::Statements;

pub(super) const STATEMENTS: Statements =
    statements!(TABLES, "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000", " FOR UPDATE");

pub(super) const LOG: &str = include_str!("log/mysql.sql");

// Ids are compared byte for byte, including trailing spaces. That collation has different names on MySQL and on
// MariaDB; each server reads only its own conditional comment.
//
// The lock is valid for the whole server, so its name contains the database. It serializes concurrent starts.
const TABLES: &str = concat!(
    "
    SELECT GET_LOCK(CONCAT('inventory ', SHA1(DATABASE())), 600);
    CREATE TABLE IF NOT EXISTS inventory_place (
        one    BIGINT PRIMARY KEY CHECK (one = 1),
        number BIGINT NOT NULL,
        shards BIGINT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS inventory_stock (
        product_id VARCHAR(64) NOT NULL,
        sku_id     VARCHAR(64) NOT NULL,
        stock      BIGINT NOT NULL CHECK (stock >= 0),
        reserved   BIGINT NOT NULL CHECK (reserved >= 0),
        PRIMARY KEY (product_id, sku_id)
    ) CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
    CREATE TABLE IF NOT EXISTS inventory_intake (
        id         BIGINT PRIMARY KEY AUTO_INCREMENT,
        product_id VARCHAR(64) NOT NULL,
        sku_id     VARCHAR(64) NOT NULL,
        quantity   BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        KEY inventory_intake_product (product_id, sku_id)
    ) CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
    CREATE TABLE IF NOT EXISTS inventory_reservation (
        idempotency_key VARCHAR(255) NOT NULL,
        attempt         BIGINT NOT NULL,
        product_id      VARCHAR(64) NOT NULL,
        sku_id          VARCHAR(64) NOT NULL,
        quantity        BIGINT NOT NULL CHECK (quantity > 0),
        status          VARCHAR(20) NOT NULL CHECK (status IN ('RESERVED', 'DEDUCTED')),
        created_at      BIGINT NOT NULL,
        PRIMARY KEY (idempotency_key, attempt, product_id, sku_id),
        KEY inventory_reservation_status (status, created_at)
    ) CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
",
    include_str!("log/mysql.sql"),
    "SELECT RELEASE_LOCK(CONCAT('inventory ', SHA1(DATABASE())))"
);
