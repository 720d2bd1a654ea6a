//! The schema and its version.

use async_trait::async_trait;
use time::OffsetDateTime;

use crate::error::{Error, Result};

/// The tables of a store.
#[async_trait]
pub trait Schema: Send + Sync {
    /// Brings the schema up to this program's version. Any number of instances may do so at once.
    async fn migrate(&self) -> Result<()>;

    /// Which schema the database has, and which this program needs.
    async fn schema_version(&self) -> Result<SchemaVersion>;

    /// The store's name in messages: its URL without the password.
    fn name(&self) -> &str;

    /// Refuses a schema of another version, with the command that updates it.
    async fn check_schema(&self) -> Result<()> {
        self.schema_version().await?.check(self.name())
    }

    /// What the store is, its version, and how large it is.
    async fn about(&self) -> Result<About>;

    /// Whether the store can be written: writes a row and removes it again. [`Error::obstacle`] says why it cannot.
    async fn probe(&self) -> Result<()>;

    /// The database's clock.
    async fn now(&self) -> Result<OffsetDateTime>;
}

/// What a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// `memory`, `sqlite`, `postgres` or `mysql`.
    pub kind: &'static str,
    /// The version of the database.
    pub version: String,
    /// Bytes by name: of each table with its indexes, or of the whole database.
    pub sizes: Vec<(String, u64)>,
}

/// Which schema a database has, and which this program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaVersion {
    /// The newest migration that has been applied; 0 for none.
    pub found: i64,
    /// The newest migration of this program.
    pub needed: i64,
}

impl SchemaVersion {
    /// Refuses a schema of another version. `store` is the URL to print, without its password.
    pub fn check(self, store: &str) -> Result<()> {
        let Self { found, needed } = self;
        match found.cmp(&needed) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less => Err(Error::SchemaOutOfDate { store: store.into(), found, needed }),
            std::cmp::Ordering::Greater => Err(Error::SchemaTooNew { store: store.into(), found, needed }),
        }
    }
}
