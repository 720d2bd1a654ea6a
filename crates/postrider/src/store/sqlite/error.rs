//! What SQLite's errors mean to the caller.

use crate::error::Error;

/// What went wrong on a connection of ours.
pub(super) fn own(error: sqlx::Error) -> Error {
    use libsqlite3_sys as code;
    match (primary_code(&error), &error) {
        (
            Some(
                code::SQLITE_BUSY
                | code::SQLITE_LOCKED
                | code::SQLITE_NOMEM
                | code::SQLITE_INTERRUPT
                | code::SQLITE_IOERR
                | code::SQLITE_FULL
                | code::SQLITE_CANTOPEN
                | code::SQLITE_PROTOCOL,
            ),
            _,
        ) => Error::Unavailable(error.into()),
        (Some(_), _)
        | (
            _,
            sqlx::Error::RowNotFound
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::Encode(_),
        ) => Error::Store(error.into()),
        _ => Error::Unavailable(error.into()),
    }
}

/// What went wrong inside the caller's transaction.
pub(super) fn enlisted(error: sqlx::Error) -> Error {
    match primary_code(&error) {
        Some(libsqlite3_sys::SQLITE_BUSY | libsqlite3_sys::SQLITE_LOCKED) => {
            Error::TransactionLost(NotImmediate(error).into())
        }
        // Rolled back under a statement of its own, or ended by one (then there is nothing to commit).
        Some(libsqlite3_sys::SQLITE_ABORT) => Error::TransactionLost(error.into()),
        Some(libsqlite3_sys::SQLITE_ERROR) if error.to_string().contains("no transaction is active") => {
            Error::TransactionLost(error.into())
        }
        _ => own(error),
    }
}

/// Why SQLite says that it is busy to a transaction that could have waited.
#[derive(Debug, thiserror::Error)]
#[error("another connection has written since this transaction began to read: begin it with BEGIN IMMEDIATE")]
struct NotImmediate(#[source] sqlx::Error);

/// SQLite's result code without the details in its higher bytes.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let code: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}
