//! What SQLite's errors mean to the caller.

use libsqlite3_sys as code;
use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteError;

use crate::store::sql::Meaning;

pub(in crate::store) fn meaning(error: &SqliteError) -> Meaning {
    let Some(extended) = error.code().and_then(|code| code.parse::<i32>().ok()) else { return Meaning::Refused };
    // The higher bytes have the details.
    match extended & 0xff {
        _ if extended == code::SQLITE_BUSY_SNAPSHOT => Meaning::AvoidablyLost(
            "another connection has written since this transaction began to read: begin it with BEGIN IMMEDIATE",
        ),
        code::SQLITE_BUSY
        | code::SQLITE_LOCKED
        | code::SQLITE_NOMEM
        | code::SQLITE_INTERRUPT
        | code::SQLITE_IOERR
        | code::SQLITE_FULL
        | code::SQLITE_CANTOPEN
        | code::SQLITE_PROTOCOL => Meaning::Unavailable,
        // A statement has rolled the transaction back or ended it.
        code::SQLITE_ABORT => Meaning::TransactionLost,
        code::SQLITE_ERROR if error.message().contains("no transaction is active") => Meaning::TransactionLost,
        _ => Meaning::Refused,
    }
}
