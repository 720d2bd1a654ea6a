//! The schema's version, the same arithmetic for every SQL store.

use crate::error::{Error, Result};

/// The table in which a database remembers its migrations; ours alone, so that the caller's own migrations and
/// ours never meet.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) const MIGRATIONS_TABLE: &str = "postrider_migrations";

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

/// One migration, for people who apply them with a tool of their own.
#[derive(Debug, Clone)]
pub struct Migration {
    /// Its number.
    pub version: i64,
    /// Its name.
    pub name: String,
    /// Its statements.
    pub sql: String,
}
