//! What MySQL's errors mean, and which transactions are run again.

use std::time::Duration;

use sqlx::mysql::MySqlDatabaseError;

use crate::error::{Error, Result};
use crate::store::Token;

/// How often a transaction of ours is run again before we say that the store is not available. Each of them is over in
/// milliseconds, so whoever was in its way is gone by then.
const TRIES: u32 = 10;

/// Runs a transaction of ours until the database lets it through: a deadlock (1213) or a lock that did not come (1205) is
/// nobody's fault, and nothing of it was written. Never used for a transaction of the caller's: only the caller knows
/// what else was in it.
macro_rules! again {
    ($work:expr) => {{
        let mut tries = 0;
        loop {
            let done = $work.await;
            if !$crate::store::mysql::error::is_worth_another(&done, &mut tries).await {
                break $crate::store::mysql::error::final_word(done);
            }
        }
    }};
}
pub(super) use again;

/// Whether a transaction was ended for the sake of another, and may be run once more. Waits a moment then.
pub(super) async fn is_worth_another<T>(done: &Result<T>, tries: &mut u32) -> bool {
    if !matches!(done, Err(Error::TransactionLost(_))) || *tries == TRIES {
        return false;
    }
    // At random, so that two that met do not meet again.
    let longest = 1_u64 << *tries;
    tokio::time::sleep(Duration::from_micros(Token::fresh().0.unsigned_abs() % (longest * 1_000))).await;
    *tries += 1;
    true
}

/// Our own callers have no transaction that they could run again.
pub(super) fn final_word<T>(done: Result<T>) -> Result<T> {
    done.map_err(|error| match error {
        Error::TransactionLost(source) => Error::Unavailable(source),
        other => other,
    })
}

/// What went wrong with a statement, in a transaction of ours or of the caller's.
pub(super) fn meaning(error: sqlx::Error) -> Error {
    match (number(&error), &error) {
        // Deadlock; lock wait timeout; a snapshot too old to write on (MariaDB's innodb_snapshot_isolation).
        (Some(1213 | 1205 | 1020), _) => Error::TransactionLost(error.into()),
        // Too many connections; shutting down; killed; a server that became read-only, as in a failover.
        (Some(1040 | 1053 | 1203 | 1226 | 1290 | 1317 | 1836 | 1927 | 3169), _) => Error::Unavailable(error.into()),
        (Some(_), _) | (_, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::RowNotFound) => {
            Error::Store(error.into())
        }
        _ => Error::Unavailable(error.into()),
    }
}

/// Whether an `INSERT` was refused because what it wanted to write is there. Its transaction goes on.
pub(super) fn is_known(error: &sqlx::Error) -> bool {
    number(error) == Some(1062)
}

fn number(error: &sqlx::Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}
