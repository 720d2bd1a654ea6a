//! Background work on the tables: the roll-up of statuses for lists, lost attempts, and the removal of old rows.

use std::time::Duration;

use async_trait::async_trait;

use super::{PriorAttempts, Record, Token};
use crate::error::Result;

/// The roll-up, the attempts that no worker has written, and the pruning.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Updates the stored status of events: of up to `limit` that were marked since the last fold, of those whose
    /// expiry has passed, and of new ones. Marks are removed before the rows are read, so that a change that commits
    /// in the meantime is marked for the next fold. Does not wait for producers or consumers; of two concurrent folds
    /// the second waits for the first.
    async fn fold(&self, limit: u32) -> Result<Folded>;

    /// Marks events that have no status although the roll-up is far behind them: they committed after many later ones were
    /// folded. Reads a limited number of events that end at `upto`, or where [`fold`](Self::fold) still looks. Returns where the
    /// next call continues, back in time; `None` at the first event.
    async fn mark_missed(&self, upto: Option<i64>) -> Result<Option<i64>>;

    /// Removes finished rows older than `older_than`. Reads at most `limit` rows, in one short transaction. An event
    /// that has a delivery, or that has no subscriber, is kept.
    async fn prune(&self, prune: &Prune) -> Result<Pruned>;

    /// Returns what pruning of events would remove, complete, for an archive: the finished ones of at most `limit`
    /// old events.
    async fn finished(&self, prune: &Prune) -> Result<Finished>;

    /// Removes these events if they are still finished. Returns how many were removed.
    async fn prune_events(&self, sequences: &[i64]) -> Result<u64>;

    /// Appends the attempts of claimed deliveries that left no trace: their worker died, and the lease ran out. A relay asks
    /// after a claim, and only for deliveries that were claimed before: see [`Lease::prior_attempts`](super::Lease::prior_attempts).
    async fn append_lost(&self, token: Token, prior: &[PriorAttempts]) -> Result<()>;
}

/// The result of one batch of the roll-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Folded {
    /// How many events it read.
    pub events: u64,
    /// Whether more events wait.
    pub more: bool,
}

/// What to prune.
#[derive(Debug, Clone, Copy)]
pub struct Prune {
    /// Which table.
    pub what: Prunable,
    /// The minimum age.
    pub older_than: Duration,
    /// Where the last batch ended; 0 to begin.
    pub after: i64,
    /// Maximum number of rows to read.
    pub limit: u32,
}

/// What can be pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prunable {
    /// Events without a delivery, with their attempts.
    Events,
    /// Inbox rows. They must outlive everything that could still be delivered again.
    Inbox,
    /// Idempotency keys without a holder.
    Keys,
    /// Bulk operations that have ended.
    Operations,
    /// Figures for charts.
    Figures,
}

/// Events that are finished and old.
#[derive(Debug, Clone)]
pub struct Finished {
    /// With payload, metadata and every attempt.
    pub events: Vec<Record>,
    /// Where the next batch starts; `None` at the end.
    pub next: Option<i64>,
}

/// The result of one batch of pruning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Rows removed.
    pub removed: u64,
    /// Where the next batch starts; `None` at the end.
    pub next: Option<i64>,
}
