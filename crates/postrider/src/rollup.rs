//! The roll-up: keeps the status that lists show up to date. It runs behind the other work: each change of an event leaves a
//! mark in the same transaction, and the roll-up folds marks in batches.
//!
//! Any number of instances may run it. One works, under a lease; if it dies another continues. Nothing is lost in between: a
//! batch removes its marks, reads and writes in one transaction. The status is computed from the rows by one pure function
//! ([`status`](crate::status)), so that folding twice, late or in another order gives the same result.
//!
//! A lane without history ([`History::Omit`](crate::store::History)) leaves no marks: lists show its events as they were when
//! the roll-up first saw them, usually PENDING. The detail ([`Events::find`](crate::store::Events::find)) is always current: SENT once no delivery waits.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::consumer::Failure;
use crate::error::Result;
use crate::presence;
use crate::retry;
use crate::store::{IntoStore, KeptLease, Store};

/// The lease of the instance that works.
const LEASE_NAME: &str = "postrider.rollup";

/// The options of the roll-up.
#[derive(Debug, Clone)]
pub struct RollupOptions {
    /// Marks in one transaction.
    pub batch: u32,
    /// The pause when there is nothing to do: about how late statuses are.
    pub poll: Duration,
    /// How soon another instance continues after this one has died.
    pub lease: Duration,
    /// The name of this instance, for operators. A random suffix is added.
    pub owner: String,
}

impl Default for RollupOptions {
    fn default() -> Self {
        Self {
            // A few milliseconds, so that the locks delay no other work.
            batch: 500,
            poll: Duration::from_millis(250),
            // Statuses of lists stand still so long after a kill; the working instance writes every third of it.
            lease: Duration::from_secs(5),
            owner: "rollup".into(),
        }
    }
}

/// Keeps statuses up to date until it is stopped.
pub struct Rollup {
    store: Arc<dyn Store>,
    options: RollupOptions,
}

impl Rollup {
    /// A roll-up with the default options.
    pub fn new(store: impl IntoStore) -> Self {
        Self { store: store.into_store(), options: RollupOptions::default() }
    }

    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: RollupOptions) -> Self {
        self.options = options;
        self
    }

    /// Folds all marks, without the lease: for tests, and for programs started by a timer. Returns how many events it
    /// read.
    pub async fn drain(&self) -> Result<u64> {
        let mut events = 0;
        loop {
            let folded = self.store.fold(self.options.batch).await?;
            events += folded.events;
            if !folded.more {
                return Ok(events);
            }
        }
    }

    /// Works until `shutdown` is ready, while no other instance holds the lease.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.store.check_schema().await?;
        let _running = self.store.wake().presence().run_loop(presence::ROLLUP);
        let owner = format!("{}-{}", self.options.owner, &Uuid::new_v4().simple().to_string()[..8]);
        let mut shutdown = pin!(shutdown);
        let mut lease = KeptLease::new(LEASE_NAME, self.options.lease);
        let mut failed = 0;
        loop {
            let pause = match self.pass(&owner, &mut lease).await {
                Ok(pause) => {
                    failed = 0;
                    pause
                }
                Err(error) => {
                    failed += 1;
                    tracing::error!(error = %Failure::from(error), "the roll-up has failed: it tries again");
                    retry::pause(failed)
                }
            };
            tokio::select! {
                // First, so that it stops between two batches also under load.
                biased;
                () = &mut shutdown => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        lease.release(&*self.store).await
    }

    /// One batch, if this instance holds the lease. Returns the pause before the next.
    async fn pass(&self, owner: &str, lease: &mut KeptLease) -> Result<Duration> {
        if !lease.keep(&*self.store, owner).await? {
            return Ok(self.options.lease / 3);
        }
        let folded = self.store.fold(self.options.batch).await?;
        Ok(if folded.more { Duration::ZERO } else { self.options.poll })
    }
}
