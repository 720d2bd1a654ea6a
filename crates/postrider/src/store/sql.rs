//! What the SQL stores share.
//!
//! The files in `sql/` are written once and compiled into each dialect: `postgres.rs`, `mysql.rs` and `sqlite.rs` include
//! `sql/roles.rs` with `#[path]`. A shared file takes what differs from there: the types `SqlStore`, `Conn`, `Row` and
//! `Time`, the functions `time`, `stored` and `numbers`, and these macros:
//!
//! - `sql!("leases/acquire_lease")` is the statement in `queries/<dialect>/leases/acquire_lease.sql`;
//! - `text!("DELETE FROM postrider_lease WHERE name = $1")` is a short statement that all dialects run. Its parameters are
//!   `$1`, `$2`, … in this order, because MySQL knows only `?`;
//! - `now!()` is the database's clock in such a statement, `later!("$1")` and `earlier!("$1")` are so many milliseconds
//!   after and before it, `is_alive!()` is whether the delivery `d` is not dead.
//!
//! Four files are for two dialects each: `columns.rs` and `server.rs` for those with a server, `returning.rs` for those whose
//! statements write and return rows at once, `polled.rs` for those that notify no other process.
//!
//! Why `#[path]` and not a macro or a generic function: `docs/decisions/0009-stores-by-role.md`.

use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha384};

use super::SchemaVersion;
use super::transaction::retry_lost;
use crate::error::{Error, Obstacle, Result};

/// Runs a transaction of the store again after a deadlock or a lock timeout, which rolled it back. Never used for the caller's
/// transaction: only the caller knows what else is in it.
pub(super) async fn retrying<T, W>(work: impl Fn() -> W) -> Result<T>
where
    W: Future<Output = Result<T>>,
{
    match retry_lost(work).await {
        // Callers of the store's own transactions have nothing to run again.
        Err(Error::TransactionLost(source)) => Err(Error::Unavailable(source)),
        done => done,
    }
}

/// What a database error means to the caller. Each dialect sorts its own codes: `postgres/error.rs` and its siblings.
pub(super) enum ErrorClass {
    /// The transaction is rolled back, or has to be: run it again.
    TransactionLost,
    /// The same, and the caller can avoid it as described.
    AvoidablyLost(&'static str),
    /// The server is shutting down, starting, or out of connections.
    Unavailable,
    /// The store answers and takes no writes.
    Obstructed(Obstacle),
    /// A table of ours does not exist.
    NoTables,
    /// The statement itself was refused.
    Refused,
}

/// The only place where driver errors are mapped.
impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match classify(&error) {
            ErrorClass::TransactionLost => Self::TransactionLost(error.into()),
            ErrorClass::AvoidablyLost(advice) => Self::TransactionLost(Advised { advice, error }.into()),
            ErrorClass::Unavailable => Self::Unavailable(error.into()),
            ErrorClass::Obstructed(obstacle) => Self::obstructed(obstacle, Some(error.into())),
            ErrorClass::NoTables => Self::NoTables(error.into()),
            ErrorClass::Refused => Self::Store(error.into()),
        }
    }
}

/// Whether an error of the driver means that the database has rolled the transaction back and asks to run it again. For
/// error types of the program's own that implement [`TransactionError`](super::TransactionError).
pub fn is_transaction_lost(error: &sqlx::Error) -> bool {
    matches!(classify(error), ErrorClass::TransactionLost | ErrorClass::AvoidablyLost(_))
}

/// An error of the driver with advice that the driver does not give.
#[derive(Debug, thiserror::Error)]
#[error("{advice}")]
struct Advised {
    advice: &'static str,
    #[source]
    error: sqlx::Error,
}

fn classify(error: &sqlx::Error) -> ErrorClass {
    let database = match error {
        sqlx::Error::Database(database) => &**database,
        sqlx::Error::RowNotFound
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::Encode(_) => return ErrorClass::Refused,
        _ => return ErrorClass::Unavailable,
    };
    #[cfg(feature = "postgres")]
    if let Some(error) = database.try_downcast_ref() {
        return super::postgres::error::classify(error);
    }
    #[cfg(feature = "mysql")]
    if let Some(error) = database.try_downcast_ref() {
        return super::mysql::error::classify(error);
    }
    #[cfg(feature = "sqlite")]
    if let Some(error) = database.try_downcast_ref() {
        return super::sqlite::error::classify(error);
    }
    // Used even if no dialect is compiled in. The error may also belong to another driver.
    let _ = database;
    ErrorClass::Refused
}

/// Whether an `INSERT` was refused because the row exists.
pub(super) fn is_duplicate(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.is_unique_violation())
}

/// Returns true if an `INSERT` wrote its row, and false if the row existed.
pub(super) fn is_new<T>(written: sqlx::Result<T>) -> Result<bool> {
    match written {
        Ok(_) => Ok(true),
        Err(error) if is_duplicate(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A parameter that carries a list, as JSON.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(Error::Encode)
}

/// Milliseconds from a statement; a negative value becomes zero.
pub(super) fn duration(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}

/// One step of the schema. A released one is never changed: `tests/it/migrations.rs` holds their checksums.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    /// The file's name: a number of four digits and what it is about.
    pub(super) file: &'static str,
    pub(super) sql: &'static str,
}

/// `migrations!["sqlite": "0001_foundation", …]` are files of `migrations/sqlite/`.
macro_rules! migrations {
    [$dialect:literal: $($file:literal),+] => {
        &[$(Migration {
            file: $file,
            sql: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $dialect, "/", $file, ".sql")),
        }),+]
    };
}
pub(super) use migrations;

impl Migration {
    pub(super) fn version(&self) -> i64 {
        self.file[..4].parse().unwrap_or_default()
    }

    pub(super) fn name(&self) -> String {
        self.file[5..].replace('_', " ")
    }

    /// The checksum that the database stores.
    pub(super) fn checksum(&self) -> Vec<u8> {
        Sha384::digest(self.sql).to_vec()
    }
}

/// Compares the migrations applied to `store`, by version and checksum, with those of this program.
pub(super) fn version(migrations: &[Migration], applied: &[(i64, Vec<u8>)], store: &str) -> Result<SchemaVersion> {
    for (version, checksum) in applied {
        let known = migrations.iter().find(|known| known.version() == *version);
        if known.is_some_and(|known| known.checksum() != *checksum) {
            return Err(Error::Unsupported(format!(
                "the tables of {store} were made by another build, whose migration {version} was not the same: \
                 use that build, or an empty database"
            )));
        }
    }
    let newest = |versions: &mut dyn Iterator<Item = i64>| versions.max().unwrap_or_default();
    Ok(SchemaVersion {
        found: newest(&mut applied.iter().map(|(version, _)| *version)),
        needed: newest(&mut migrations.iter().map(Migration::version)),
    })
}

/// The migrations of a dialect after version `after` as one script, with the rows that mark each as applied, so that
/// this program accepts a schema that another tool has created. `table` creates the migrations table; `blob` formats
/// bytes.
pub(super) fn script(migrations: &[Migration], after: i64, table: &str, blob: fn(&str) -> String) -> String {
    let mut script = if after == 0 { table.to_owned() } else { String::new() };
    for migration in migrations.iter().filter(|migration| migration.version() > after) {
        let (version, name, sql) = (migration.version(), migration.name(), migration.sql);
        let checksum = blob(&hex::encode(migration.checksum()));
        script.push_str(&format!(
            "\n-- Migration {version}: {name}\n\n{sql}\nINSERT INTO postrider_migrations (version, description, success, checksum, execution_time)\n\
             VALUES ({version}, '{name}', true, {checksum}, 0);\n",
        ));
    }
    script
}

/// The consumer behind a broker's lane. The column is part of a unique index, so it has an empty text for none.
pub(super) fn target(column: String) -> Option<String> {
    (!column.is_empty()).then_some(column)
}

/// The URL of a database without the options that the driver writes down unasked.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn without_defaults(url: &str) -> String {
    const DEFAULTS: [&str; 4] =
        ["sslmode=prefer", "statement-cache-capacity=100", "ssl-mode=PREFERRED", "charset=utf8mb4"];
    let (place, options) = url.split_once('?').unwrap_or((url, ""));
    let options: Vec<_> = options.split('&').filter(|option| !DEFAULTS.contains(option)).collect();
    match options.join("&") {
        none if none.is_empty() => place.to_owned(),
        options => format!("{place}?{options}"),
    }
}
