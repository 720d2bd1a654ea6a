//! The roll-up: keeps the status that lists go by in step with what has happened. It follows behind, off everybody's path:
//! whatever changes an event leaves a mark in the same transaction, and marks are folded in batches.
//!
//! Any number of instances may run it; one works, under a lease, and if it dies another goes on where it stopped. Nothing is
//! lost in between: a batch removes its marks, reads and writes in one transaction, and the status is computed from the rows
//! by one pure function ([`status`](crate::status)), so that doing it twice, late or in another order ends in the same word.
//!
//! A lane that keeps no history ([`History::Omit`](crate::store::History)) leaves no mark either: its events are listed as they
//! were when the roll-up first saw them, usually PENDING, while the detail ([`Store::find`]) always tells how they stand: SENT
//! once nothing of them waits.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use crate::consumer::Failure;
use crate::error::Result;
use crate::retry;
use crate::store::{Store, Token};

/// The lease that whoever works holds.
const LEASE_NAME: &str = "postrider.rollup";

/// What a user may choose.
#[derive(Debug, Clone)]
pub struct RollupOptions {
    /// Marks in one transaction.
    pub batch: u32,
    /// How long to wait when there is nothing to do: about how far statuses lag behind.
    pub poll: Duration,
    /// How soon another instance goes on after this one has died.
    pub lease: Duration,
    /// Who works, for people: an incarnation is added.
    pub owner: String,
}

impl Default for RollupOptions {
    fn default() -> Self {
        Self {
            // Some milliseconds' worth: nobody notices the locks.
            batch: 500,
            poll: Duration::from_millis(250),
            lease: Duration::from_secs(15),
            owner: "rollup".into(),
        }
    }
}

/// Keeps statuses until it is told to stop.
pub struct Rollup {
    store: Arc<dyn Store>,
    options: RollupOptions,
}

impl Rollup {
    /// With the usual options.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, options: RollupOptions::default() }
    }

    /// Other options than the usual.
    #[must_use]
    pub fn options(mut self, options: RollupOptions) -> Self {
        self.options = options;
        self
    }

    /// Folds everything there is, whoever else does: for tests, and for programs that a timer starts. Returns how many
    /// events it looked at.
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

    /// Works until `shutdown` is ready, whenever no other instance does.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.store.check_schema().await?;
        let owner = format!("{}-{}", self.options.owner, &Uuid::new_v4().simple().to_string()[..8]);
        let mut shutdown = pin!(shutdown);
        let mut held: Option<Held> = None;
        let mut failed = 0;
        loop {
            let pause = match self.pass(&owner, &mut held).await {
                Ok(pause) => {
                    failed = 0;
                    pause
                }
                Err(error) => {
                    failed += 1;
                    tracing::error!(error = %Failure::from(error), "the roll-up cannot go on: statuses wait");
                    retry::pause(failed)
                }
            };
            tokio::select! {
                // Told to stop while there is much to do, it stops between two batches.
                biased;
                () = &mut shutdown => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        if let Some(held) = held {
            // Otherwise the next instance waits until it runs out.
            self.store.release_lease(LEASE_NAME, held.token).await?;
        }
        Ok(())
    }

    /// One batch, if the lease is ours. Returns how long to wait before the next.
    async fn pass(&self, owner: &str, held: &mut Option<Held>) -> Result<Duration> {
        let lease = self.options.lease;
        if held.as_ref().is_some_and(|held| held.since.elapsed() > lease / 3) {
            let token = held.take().map(|held| held.token);
            if let Some(token) = token
                && self.store.extend_lease(LEASE_NAME, token, lease).await?
            {
                *held = Some(Held { token, since: Instant::now() });
            }
        }
        if held.is_none() {
            let since = Instant::now();
            *held = self.store.acquire_lease(LEASE_NAME, owner, lease).await?.map(|token| Held { token, since });
        }
        if held.is_none() {
            return Ok(lease / 3);
        }
        let folded = self.store.fold(self.options.batch).await?;
        Ok(if folded.more { Duration::ZERO } else { self.options.poll })
    }
}

struct Held {
    token: Token,
    /// When it was last taken or extended.
    since: Instant,
}
