//! What the stores with a server do the same way: one pool for all their statements, and times as the driver has them.

use time::OffsetDateTime;

use super::{Database, Sessions, SqlStore, StoreTx};
use crate::error::Result;
use crate::store::sessions::Session;

impl SqlStore {
    pub(super) fn reader(&self) -> &Sessions {
        &self.work
    }

    /// A result, because SQLite looks first whether its file is still there.
    pub(super) fn writer(&self) -> Result<&Sessions> {
        Ok(&self.work)
    }

    /// Begins a transaction of the store.
    pub(super) async fn write(&self) -> Result<StoreTx> {
        Ok(self.work.begin().await?)
    }

    /// A session for several reads.
    pub(super) async fn snapshot(&self) -> Result<Session<Database>> {
        Ok(self.work.acquire().await?)
    }
}

pub(super) fn time(stored: OffsetDateTime) -> OffsetDateTime {
    stored
}
