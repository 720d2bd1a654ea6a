//! What the errors of MySQL and MariaDB mean to the caller.

use sqlx::mysql::MySqlDatabaseError;

use crate::error::Obstacle;
use crate::store::sql::ErrorClass;

pub(in crate::store) fn classify(error: &MySqlDatabaseError) -> ErrorClass {
    match error.number() {
        // Deadlock; lock wait timeout; a snapshot too old to write on (MariaDB's innodb_snapshot_isolation).
        1213 | 1205 | 1020 => ErrorClass::TransactionLost,
        // Too many connections; shutting down; killed.
        1040 | 1053 | 1203 | 1226 | 1317 | 1927 | 3169 => ErrorClass::Unavailable,
        // A server that became read-only, as in a failover.
        1290 | 1836 => ErrorClass::Obstructed(Obstacle::ReadOnly),
        // The disk, or the table's space on it, is full; the storage engine reports ENOSPC.
        1021 | 1026 | 1114 => ErrorClass::Obstructed(Obstacle::Full),
        1030 if error.message().contains("error 28") => ErrorClass::Obstructed(Obstacle::Full),
        // A table that does not exist. The user's own tables are the user's.
        1146 if error.message().contains("postrider_") => ErrorClass::NoTables,
        _ => ErrorClass::Refused,
    }
}
