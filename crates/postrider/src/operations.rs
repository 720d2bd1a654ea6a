//! Bulk operations: redrives of everything that matches a filter, in batches, at a chosen rate.
//!
//! An operation is a row ([`OperationRuns::create_operation`](crate::store::OperationRuns::create_operation)). Any number of instances may work; one instance at a time works on an
//! operation, under a lease. The redrives of a batch and the progress commit together, so that after a crash the next
//! instance continues behind the last batch and redrives nothing twice.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use crate::consumer::Failure;
use crate::error::Result;
use crate::limits;
use crate::presence;
use crate::retry;
use crate::store::{Advance, Filter, IntoStore, List, Operation, OperationState, Store, Token};

/// Events in one transaction, at most, so that the locks delay no other work.
const BATCH: u32 = 200;
/// Where counting stops: larger operations are "at least this many".
const COUNTED: u64 = 100_000;

/// The options of the worker.
#[derive(Debug, Clone)]
pub struct OperationsOptions {
    /// How often to look for work.
    pub poll: Duration,
    /// How soon another instance continues after this one has died.
    pub lease: Duration,
    /// The name of this instance, for operators. A random suffix is added.
    pub owner: String,
}

impl Default for OperationsOptions {
    fn default() -> Self {
        Self { poll: Duration::from_secs(1), lease: Duration::from_secs(15), owner: "operations".into() }
    }
}

/// Works on bulk operations until it is stopped.
pub struct Operations {
    store: Arc<dyn Store>,
    options: OperationsOptions,
}

/// How many events match a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matching {
    /// How many.
    pub events: u64,
    /// Whether the count is exact; if false, there are at least this many.
    pub exact: bool,
}

/// Counts the events of an operation: a dry run.
pub async fn matching(store: &dyn Store, filter: &Filter) -> Result<Matching> {
    let mut list = List::new(filter.clone(), limits::PAGE_EVENTS);
    let mut events = 0;
    loop {
        let page = store.list(&list).await?;
        events += page.events.len() as u64;
        match page.next {
            None => return Ok(Matching { events, exact: true }),
            Some(_) if events >= COUNTED => return Ok(Matching { events, exact: false }),
            Some(next) => list.after = Some(next),
        }
    }
}

impl Operations {
    /// A worker with the default options.
    pub fn new(store: impl IntoStore) -> Self {
        Self { store: store.into_store(), options: OperationsOptions::default() }
    }

    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: OperationsOptions) -> Self {
        self.options = options;
        self
    }

    /// Works until `shutdown` is ready; it stops between two batches.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.store.check_schema().await?;
        let _running = self.store.wake().presence().run_loop(presence::OPERATIONS);
        let mut shutdown = pin!(shutdown);
        let owner = self.owner();
        let mut work = None;
        let mut failed = 0;
        loop {
            let pause = match self.pass(&owner, &mut work).await {
                Ok(pause) => {
                    failed = 0;
                    pause
                }
                Err(error) => {
                    failed += 1;
                    tracing::error!(error = %Failure::from(error), "bulk operations have failed: they are tried again");
                    retry::pause(failed)
                }
            };
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        if let Some(work) = work {
            // So that the next instance does not wait until the lease runs out. A shutdown does not fail for it.
            let released = self.store.release_operation(&work.operation.request.id, work.token).await;
            if let Err(error) = released {
                tracing::warn!(error = %Failure::from(error), "a bulk operation could not be given back: its lease runs out");
            }
        }
        Ok(())
    }

    /// Works until no operation is left: for tests, and for programs started by a timer.
    pub async fn drain(self) -> Result<()> {
        let owner = self.owner();
        let mut work = None;
        loop {
            let pause = self.pass(&owner, &mut work).await?;
            if work.is_none() && self.store.claim_operation(&owner, Duration::ZERO).await?.is_none() {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
        }
    }

    fn owner(&self) -> String {
        format!("{}-{}", self.options.owner, &Uuid::new_v4().simple().to_string()[..8])
    }

    /// One batch of the current operation, or of the next one. Returns the pause before the next batch.
    async fn pass(&self, owner: &str, work: &mut Option<Work>) -> Result<Duration> {
        let lease = self.options.lease;
        let mut current = match work.take() {
            Some(current) => current,
            None => match self.store.claim_operation(owner, lease).await? {
                Some((operation, token)) => Work { operation, token, since: Instant::now(), redriven: 0 },
                None => return Ok(self.options.poll),
            },
        };
        let request = &current.operation.request;
        let batch = current.batch();
        let list = List { filter: request.filter.clone(), limit: batch, after: current.operation.position };
        let page = self.store.list(&list).await?;
        let events: Vec<i64> = page.events.iter().map(|record| record.sequence).collect();
        let advance = Advance { id: &request.id, token: current.token, events: &events, next: page.next, lease };
        // `None` means that it was paused or cancelled, or that another instance has it.
        let Some(operation) = self.store.advance_operation(&advance).await? else { return Ok(Duration::ZERO) };
        current.redriven += operation.done - current.operation.done;
        let pause = current.pause();
        current.operation = operation;
        if current.operation.state == OperationState::Running {
            *work = Some(current);
        }
        Ok(pause)
    }
}

/// The operation that this instance works on.
struct Work {
    operation: Operation,
    token: Token,
    since: Instant,
    /// How many since `since`, for the rate.
    redriven: u64,
}

impl Work {
    /// The number of events for a quarter of a second.
    fn batch(&self) -> u32 {
        self.operation.request.rate_per_second.map_or(BATCH, |rate| (rate / 4).clamp(1, BATCH))
    }

    /// The pause that keeps the rate.
    fn pause(&self) -> Duration {
        let Some(rate) = self.operation.request.rate_per_second else { return Duration::ZERO };
        let allowed = Duration::from_secs_f64(self.redriven as f64 / f64::from(rate));
        allowed.saturating_sub(self.since.elapsed())
    }
}
