//! The schema and its version, the same for every SQL store.

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
use sqlx::migrate::{MigrateError, Migrator};

use crate::error::{Error, Result};

/// The table in which a database remembers its migrations; ours alone, so that the caller's own migrations and
/// ours never meet.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) const MIGRATIONS_TABLE: &str = "postrider_migrations";

/// Which schema a database has, and which this program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaVersion {
    /// The newest migration that has been applied; 0 for none.
    pub found: i64,
    /// The newest migration of this program.
    pub needed: i64,
}

impl SchemaVersion {
    /// Refuses a schema that is not this program's. `store` is the URL to print, without its password.
    pub fn check(self, store: &str) -> Result<()> {
        let Self { found, needed } = self;
        match found.cmp(&needed) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less => Err(Error::SchemaOutOfDate { store: store.into(), found, needed }),
            std::cmp::Ordering::Greater => Err(Error::SchemaTooNew { store: store.into(), found, needed }),
        }
    }
}

/// Compares what has been applied to `store`, versions with their checksums, with what this program would apply.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) fn version(migrator: &Migrator, applied: &[(i64, Vec<u8>)], store: &str) -> Result<SchemaVersion> {
    for (version, checksum) in applied {
        if migrator.iter().any(|known| known.version == *version && *known.checksum != **checksum) {
            return Err(of_another_build(store, *version));
        }
    }
    let found = applied.iter().map(|(version, _)| *version).max().unwrap_or_default();
    Ok(SchemaVersion { found, needed: newest(migrator) })
}

/// Why the migrations of `store` were not run. `meaning` reads the database's own errors.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) fn refused(
    error: MigrateError,
    store: &str,
    migrator: &Migrator,
    meaning: fn(sqlx::Error) -> Error,
) -> Error {
    match error {
        MigrateError::VersionMissing(found) => {
            Error::SchemaTooNew { store: store.into(), found, needed: newest(migrator) }
        }
        MigrateError::VersionMismatch(version) => of_another_build(store, version),
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => meaning(error),
        other => Error::Store(other.into()),
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
fn of_another_build(store: &str, version: i64) -> Error {
    Error::Unsupported(format!(
        "the tables of {store} were made by another build, whose migration {version} was not the same: \
         use that build, or an empty database"
    ))
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
fn newest(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// The migrations of a dialect as one script: its statements, and what marks each as applied, so that this program
/// accepts a schema that another tool has made. `table` makes the migrations table; `blob` writes bytes.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) fn script(migrator: &Migrator, table: &str, blob: fn(&str) -> String) -> String {
    use std::fmt::Write as _;
    let mut script = table.to_owned();
    for migration in migrator.iter() {
        let checksum = hex::encode(&migration.checksum);
        let _ = write!(
            script,
            "\n-- Migration {version}: {name}\n\n{sql}\nINSERT INTO {MIGRATIONS_TABLE} (version, description, success, checksum, execution_time)\n\
             VALUES ({version}, '{name}', true, {checksum}, 0);\n",
            version = migration.version,
            name = migration.description,
            sql = migration.sql.as_str(),
            checksum = blob(&checksum),
        );
    }
    script
}
