//! What SQLite's errors mean to the caller.

use libsqlite3_sys as code;
use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteError;

use crate::error::Obstacle;
use crate::store::sql::ErrorClass;

pub(in crate::store) fn classify(error: &SqliteError) -> ErrorClass {
    let Some(extended) = error.code().and_then(|code| code.parse::<i32>().ok()) else { return ErrorClass::Refused };
    // The higher bytes have the details.
    match extended & 0xff {
        _ if extended == code::SQLITE_BUSY_SNAPSHOT => ErrorClass::AvoidablyLost(
            "another connection has written since this transaction began to read: begin it with BEGIN IMMEDIATE",
        ),
        _ if extended == code::SQLITE_READONLY_DBMOVED => ErrorClass::Obstructed(Obstacle::Replaced),
        code::SQLITE_READONLY => ErrorClass::Obstructed(Obstacle::ReadOnly),
        // A file that may not grow (a quota, a limit of the process) is a failed write and not a full disk.
        code::SQLITE_FULL => ErrorClass::Obstructed(Obstacle::Full),
        _ if extended == code::SQLITE_IOERR_WRITE => ErrorClass::Obstructed(Obstacle::Full),
        code::SQLITE_BUSY
        | code::SQLITE_LOCKED
        | code::SQLITE_NOMEM
        | code::SQLITE_INTERRUPT
        | code::SQLITE_IOERR
        | code::SQLITE_CANTOPEN
        | code::SQLITE_PROTOCOL => ErrorClass::Unavailable,
        // A statement has rolled the transaction back or ended it.
        code::SQLITE_ABORT => ErrorClass::TransactionLost,
        code::SQLITE_ERROR if error.message().contains("no transaction is active") => ErrorClass::TransactionLost,
        code::SQLITE_ERROR if error.message().contains("no such table: postrider_") => ErrorClass::NoTables,
        _ => ErrorClass::Refused,
    }
}
