//! What PostgreSQL's errors mean to the caller.

use sqlx::postgres::PgDatabaseError;

use crate::error::Obstacle;
use crate::store::sql::ErrorClass;

pub(in crate::store) fn classify(error: &PgDatabaseError) -> ErrorClass {
    match error.code() {
        // Serialization failure, deadlock, and a transaction that an earlier error has aborted already.
        "40001" | "40P01" | "25P02" => ErrorClass::TransactionLost,
        // The server is shutting down, crashed or starting, or has no connection left.
        "57P01" | "57P02" | "57P03" | "53300" => ErrorClass::Unavailable,
        "53100" => ErrorClass::Obstructed(Obstacle::Full),
        // A standby, or a server that was made read-only, as in a failover.
        "25006" => ErrorClass::Obstructed(Obstacle::ReadOnly),
        // A table that does not exist. The user's own tables are the user's.
        "42P01" if error.message().contains("postrider_") => ErrorClass::NoTables,
        _ => ErrorClass::Refused,
    }
}
