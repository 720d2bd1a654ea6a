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

use tokio::time::Instant;
use uuid::Uuid;

use crate::consumer::Failure;
use crate::error::Result;
use crate::presence;
use crate::retry;
use crate::store::{IntoStore, KeptLease, Store};

/// The lease of the instance that works.
const LEASE_NAME: &str = "postrider.rollup";
/// How often to look for events that committed late. A look reads 20,000 events and takes some 20 ms.
const MISSED_EVERY: Duration = Duration::from_secs(10);
/// How many looks go back in time before they begin again with the newest: a million events.
const MISSED_LOOKS: u32 = 50;

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
        self.store.mark_missed(None).await?;
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
        let mut missed = Missed::default();
        let mut failed = 0;
        loop {
            let pause = match self.pass(&owner, &mut lease, &mut missed).await {
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
        lease.release(&*self.store).await;
        Ok(())
    }

    /// One batch, if this instance holds the lease. Returns the pause before the next.
    async fn pass(&self, owner: &str, lease: &mut KeptLease, missed: &mut Missed) -> Result<Duration> {
        if !lease.keep(&*self.store, owner).await? {
            return Ok(self.options.lease / 3);
        }
        missed.look(&*self.store).await?;
        let folded = self.store.fold(self.options.batch).await?;
        Ok(if folded.more { Duration::ZERO } else { self.options.poll })
    }
}

/// The looks for events that committed late.
struct Missed {
    next: Instant,
    upto: Option<i64>,
    looks: u32,
}

impl Default for Missed {
    fn default() -> Self {
        Self { next: Instant::now(), upto: None, looks: 0 }
    }
}

impl Missed {
    /// One look, if it is time for it.
    async fn look(&mut self, store: &dyn Store) -> Result<()> {
        if Instant::now() < self.next {
            return Ok(());
        }
        self.next = Instant::now() + MISSED_EVERY;
        self.looks += 1;
        self.upto = store.mark_missed(self.upto).await?.filter(|_| self.looks < MISSED_LOOKS);
        if self.upto.is_none() {
            self.looks = 0;
        }
        Ok(())
    }
}
