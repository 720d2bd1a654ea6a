//! How long finished things are kept, and how they are removed.
//!
//! An inbox row proves that an effect has happened. It is kept longer than its event can be delivered again; a shorter
//! retention is refused.

mod archive;

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::retry::RetryPolicy;
use crate::store::{Prunable, Prune, Store};

const DAY: Duration = Duration::from_secs(86_400);
/// Rows in one transaction: few, so that claims are not delayed.
const BATCH: u32 = 500;

/// What to keep, for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Finished events, with their attempts and statuses; bulk operations that have ended; figures.
    pub finished: Duration,
    /// Inbox rows.
    pub inbox: Duration,
    /// Idempotency keys that are not held.
    pub keys: Duration,
    /// For how long after it was written an event may be redriven.
    pub redrive_horizon: Duration,
    /// A folder to which events are written before they are removed: one file a day (`events-2026-02-28.jsonl`, by
    /// the day they were stored), one line an event, with its status and every attempt. The file is synced before
    /// anything is removed; a crash in between writes some of them twice. `None` removes them without an archive.
    pub archive: Option<PathBuf>,
}

impl Default for Retention {
    /// 30 days of events, 14 of the inbox and of keys; a redrive within 7.
    fn default() -> Self {
        Self { finished: 30 * DAY, inbox: 14 * DAY, keys: 14 * DAY, redrive_horizon: 7 * DAY, archive: None }
    }
}

impl Retention {
    /// Refuses a retention of the inbox in which an event could be delivered again after its row was removed: it may be
    /// redriven at the end of the horizon, and is then tried for as long as `policy` lasts.
    pub fn check(&self, policy: &RetryPolicy) -> Result<()> {
        let needed = self.redrive_horizon + policy.longest();
        if self.inbox < needed {
            return Err(Error::invalid(
                "retention of the inbox",
                format!(
                    "must be at least {needed:?}, the redrive horizon and the longest retries together, is {:?}: an event \
                     could be delivered again after its inbox row was removed",
                    self.inbox
                ),
            ));
        }
        Ok(())
    }

    /// Removes everything older, in small transactions. Returns how many rows were removed. The inbox comes last, after the
    /// events whose rows it has.
    pub async fn prune(&self, store: &dyn Store) -> Result<u64> {
        let mut removed = match &self.archive {
            Some(folder) => self.archive_events(store, folder).await?,
            None => 0,
        };
        for (what, older_than) in [
            (Prunable::Events, self.finished),
            (Prunable::Operations, self.finished),
            (Prunable::Figures, self.finished),
            (Prunable::Keys, self.keys),
            (Prunable::Inbox, self.inbox),
        ] {
            if what == Prunable::Events && self.archive.is_some() {
                continue;
            }
            let mut after = Some(0);
            while let Some(from) = after {
                let pruned = store.prune(&Prune { what, older_than, after: from, limit: BATCH }).await?;
                removed += pruned.removed;
                after = pruned.next;
                // Lets other tasks run.
                tokio::task::yield_now().await;
            }
        }
        Ok(removed)
    }

    /// Writes finished events to files, and then removes them.
    async fn archive_events(&self, store: &dyn Store, folder: &std::path::Path) -> Result<u64> {
        let mut removed = 0;
        let mut after = Some(0);
        while let Some(from) = after {
            let batch = Prune { what: Prunable::Events, older_than: self.finished, after: from, limit: BATCH };
            let finished = store.finished(&batch).await?;
            let sequences: Vec<i64> = finished.events.iter().map(|record| record.sequence).collect();
            if !sequences.is_empty() {
                archive::write(folder.to_owned(), finished.events).await?;
                removed += store.prune_events(&sequences).await?;
            }
            after = finished.next;
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F21: an inbox that would be pruned too early is refused.
    #[test]
    fn an_inbox_that_forgets_too_early_is_refused() {
        let policy = RetryPolicy::default();
        assert!(Retention::default().check(&policy).is_ok());
        let hour = Duration::from_secs(3600);
        let short = Retention { inbox: hour, ..Retention::default() };
        let refused = short.check(&policy).expect_err("an hour is too short").to_string();
        assert!(refused.starts_with("retention of the inbox must be at least"), "{refused}");
        // The horizon alone is not enough: an event may be redriven at its end.
        let no_room = Retention { inbox: 7 * DAY, ..Retention::default() };
        assert!(no_room.check(&policy).is_err());
        let patient = RetryPolicy { max_attempts: 1_000, ..RetryPolicy::default() };
        assert!(Retention::default().check(&patient).is_err(), "a month of retries");
    }
}
