//! Background work on the tables: the roll-up of statuses for lists, and the removal of what is old.

use std::time::Duration;

use async_trait::async_trait;

use super::Found;
use crate::error::Result;

/// The roll-up and the pruning.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Brings the stored status of events up to date: of up to `limit` that were marked since the last fold, of those whose
    /// expiry has passed, and of new ones. Marks are removed before the rows are read, so that a change that commits in the
    /// meantime is marked for the next fold. Waits for no producer and no consumer; of two concurrent folds the second waits
    /// for the first.
    async fn fold(&self, limit: u32) -> Result<Folded>;

    /// Removes what is finished and older than `older_than`. Looks at no more than `limit` rows, in one short transaction. An
    /// event that has a delivery, or that has no subscriber, is kept.
    async fn prune(&self, prune: &Prune) -> Result<Pruned>;

    /// What pruning events would remove, whole, for an archive: the finished ones of at most `limit` old events.
    async fn finished(&self, prune: &Prune) -> Result<Finished>;

    /// Removes these events if they are still finished. Returns how many were removed.
    async fn prune_events(&self, sequences: &[i64]) -> Result<u64>;
}

/// What a batch of the roll-up did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Folded {
    /// How many events it looked at.
    pub events: u64,
    /// Whether there is more at once.
    pub more: bool,
}

/// What to prune.
#[derive(Debug, Clone, Copy)]
pub struct Prune {
    /// From which table.
    pub what: Prunable,
    /// Older than this.
    pub older_than: Duration,
    /// Where the last batch ended; 0 to begin.
    pub after: i64,
    /// Rows to look at.
    pub limit: u32,
}

/// What can be pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prunable {
    /// Events without a delivery, with their attempts.
    Events,
    /// Inbox rows. Only after everything that could still be delivered again is gone.
    Inbox,
    /// Idempotency keys that nobody holds.
    Keys,
    /// Bulk operations that have ended.
    Operations,
    /// Figures of charts.
    Figures,
}

/// Events that are finished and old.
#[derive(Debug, Clone)]
pub struct Finished {
    /// With payload, metadata and every attempt.
    pub events: Vec<Found>,
    /// Where to go on; None: the end.
    pub next: Option<i64>,
}

/// What a batch of pruning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Rows removed.
    pub removed: u64,
    /// Where to go on; None: the end.
    pub next: Option<i64>,
}
