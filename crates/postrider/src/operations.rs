//! Bulk operations: redrives of everything that matches a filter, in batches, at a chosen rate, in steps with gates.
//!
//! An operation is a row ([`OperationRuns::create_operation`](crate::store::OperationRuns::create_operation)). Its plan comes first:
//! the events that match are noted page by page. Then they are redriven, and what comes of them is read from their first attempts.
//! Any number of instances may work; one instance at a time works on an operation, under a lease. The redrives of a batch and the
//! progress commit together, so that after a crash the next instance goes on where it was and redrives nothing twice.
//!
//! With a [`Ramp`](crate::store::Ramp) an operation waits after each step for the first attempts of its events, and stops by itself
//! if too many failed again.

use std::collections::BTreeMap;
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
use crate::status::{ConsumerState, Record};
use crate::store::access::{NewAudit, audited};
use crate::store::decide::{self, Plan};
use crate::store::{
    Advance, IntoStore, ItemOutcome, List, NewOperation, Operation, OperationState, OperationStep, PlanPage, Progress,
    Store,
};

/// Events in one transaction, at most, so that the locks delay no other work.
const BATCH: u32 = 200;
/// Where a dry run stops reading: larger numbers are estimates.
const LOOKED_AT: u64 = 10_000;
/// Events that a dry run names for each rule.
const SAMPLES: usize = 5;
/// The operations among which `drain` looks for those that run.
const NEWEST: u32 = 500;
/// The shortest wait for an operation that is not due yet.
const SHORTEST: Duration = Duration::from_millis(1);
/// How a stop by a gate is called in the audit.
const STOPPED: &str = "operation stopped itself";

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

/// What an operation would do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// How many events match.
    pub matching: u64,
    /// Whether all of them were looked at. If not, `matching` is an estimate, and the split is of the newest ones only.
    pub exact: bool,
    /// How many events were looked at.
    pub looked_at: u64,
    /// How those divide by rule, the largest part first.
    pub split: Vec<RuleShare>,
    /// Consumers that had succeeded with some of them before; a redrive leaves them out.
    pub already_succeeded: Vec<(String, u64)>,
    /// The steps of its ramp.
    pub steps: Vec<OperationStep>,
}

/// The events that one rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleShare {
    /// [`REDRIVE`] for events that would be redriven, or [`Refusal::code`](crate::redrive::Refusal::code).
    pub rule: &'static str,
    /// Whether the rule is that nothing needs to be done, or that nothing may be.
    pub outcome: ItemOutcome,
    /// How many.
    pub events: u64,
    /// Some of them.
    pub samples: Vec<String>,
}

/// The rule of events that would be redriven.
pub const REDRIVE: &str = "redrive";

/// Says what an operation would do, and changes nothing. Reads 10,000 matching events at most.
pub async fn dry_run(store: &dyn Store, new: &NewOperation) -> Result<DryRun> {
    new.check()?;
    let (subscriptions, now) = (store.subscriptions(None).await?, store.now().await?);
    let request = decide::request(new, &subscriptions);
    let mut list = List::new(new.filter.clone(), limits::PAGE_EVENTS);
    let mut found = Found::default();
    let exact = loop {
        let page = store.list(&list).await?;
        found.add(&page.events, &Plan::of(&page.events, &request, now), new);
        match page.next {
            None => break true,
            Some(_) if found.looked_at >= LOOKED_AT => break false,
            Some(next) => list.after = Some(next),
        }
    };
    let counted = if exact { found.looked_at } else { store.count_events(&new.filter).await?.value };
    Ok(found.dry_run(counted, exact, new))
}

/// What a dry run has found so far.
#[derive(Default)]
struct Found {
    looked_at: u64,
    rules: BTreeMap<&'static str, RuleShare>,
    succeeded: BTreeMap<String, u64>,
}

impl Found {
    fn add(&mut self, records: &[Record], plan: &Plan, new: &NewOperation) {
        for (record, (_, answer)) in records.iter().zip(&plan.answers) {
            self.looked_at += 1;
            let (rule, outcome) = match answer {
                Ok(_) => (REDRIVE, ItemOutcome::Planned),
                Err(refusal) => (refusal.code(), ItemOutcome::of_refusal(refusal)),
            };
            let share = RuleShare { rule, outcome, events: 0, samples: Vec::new() };
            let share = self.rules.entry(rule).or_insert(share);
            share.events += 1;
            if share.samples.len() < SAMPLES {
                share.samples.push(record.envelope.event_id.to_string());
            }
            for (consumer, state) in record.consumers() {
                if state == ConsumerState::Ok && new.filter.scope.has_consumer(consumer) {
                    *self.succeeded.entry(consumer.into()).or_default() += 1;
                }
            }
        }
    }

    fn dry_run(self, matching: u64, exact: bool, new: &NewOperation) -> DryRun {
        let matching = matching.max(self.looked_at);
        let would = self.rules.get(REDRIVE).map_or(0, |share| share.events);
        let expected = if exact { would } else { matching * would / self.looked_at.max(1) };
        let mut split: Vec<_> = self.rules.into_values().collect();
        split.sort_by(|a, b| (b.events, a.rule).cmp(&(a.events, b.rule)));
        let steps = new.ramp.as_ref().map(|ramp| decide::stairs(&Progress::new(Some(ramp)).steps, expected));
        DryRun {
            matching,
            exact,
            looked_at: self.looked_at,
            split,
            already_succeeded: self.succeeded.into_iter().collect(),
            steps: steps.unwrap_or_default(),
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
        let (mut failed, mut due) = (0, None);
        loop {
            let pause = match self.pass(&owner).await {
                Ok(passed) => {
                    failed = 0;
                    self.idle(passed, &mut due)
                }
                Err(error) => {
                    failed += 1;
                    tracing::error!(error = %Failure::from(error), "bulk operations have failed: they are tried again");
                    retry::pause(failed)
                }
            };
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Works until no operation runs that this instance could work on: for tests, and for programs started by a timer. It does
    /// not wait for the results of operations that have ended.
    pub async fn drain(self) -> Result<()> {
        let owner = self.owner();
        let mut due = None;
        loop {
            let passed = self.pass(&owner).await?;
            if passed == Passed::Nothing {
                let newest = self.store.operations(None, NEWEST).await?;
                let is_free = |one: &Operation| one.state == OperationState::Running && one.owner.is_none();
                if !newest.iter().any(is_free) {
                    return Ok(());
                }
            }
            tokio::time::sleep(self.idle(passed, &mut due)).await;
        }
    }

    /// How long to wait before the next pass. `due` is when the first of the operations that were put back has something to do.
    fn idle(&self, passed: Passed, due: &mut Option<Instant>) -> Duration {
        match passed {
            Passed::Worked(pause) => {
                let next = pause.map(|pause| Instant::now() + pause);
                *due = [*due, next].into_iter().flatten().min();
                // Another operation may have something to do now.
                Duration::ZERO
            }
            Passed::Nothing => {
                let known = due.take().map(|at| at.saturating_duration_since(Instant::now()));
                known.map_or(self.options.poll, |pause| pause.clamp(SHORTEST, self.options.poll.max(SHORTEST)))
            }
        }
    }

    fn owner(&self) -> String {
        format!("{}-{}", self.options.owner, &Uuid::new_v4().simple().to_string()[..8])
    }

    /// One piece of the operation that has waited longest.
    async fn pass(&self, owner: &str) -> Result<Passed> {
        let lease = self.options.lease;
        let Some((operation, token)) = self.store.claim_operation(owner, lease).await? else {
            return Ok(Passed::Nothing);
        };
        let id = &operation.request.id;
        let page = self.page(&operation).await?;
        let advance = Advance { id, token, page, batch: batch(operation.request.rate_per_second), lease };
        let record =
            NewAudit { actor: owner, action: STOPPED, target: Some(id), outcome: "done", ..NewAudit::default() };
        let advanced = audited(&record, self.store.advance_operation(&advance)).await.done?;
        // `None` means that it was paused or cancelled, or that another instance has it.
        let Some(after) = advanced else { return Ok(Passed::Worked(None)) };
        let pause = after.pause(after.done - operation.done, after.updated_at);
        self.store.release_operation(id, token, pause.unwrap_or_default()).await?;
        Ok(Passed::Worked(pause))
    }

    /// The next page of the plan, while it is not complete.
    async fn page(&self, operation: &Operation) -> Result<Option<PlanPage>> {
        if operation.position.is_none() || operation.state != OperationState::Running {
            return Ok(None);
        }
        let (filter, after) = (operation.request.filter.clone(), operation.position);
        let page = self.store.list(&List { filter, limit: limits::PAGE_EVENTS, after }).await?;
        let event = |record: &Record| (record.sequence, record.envelope.event_id.to_string());
        Ok(Some(PlanPage { after, events: page.events.iter().map(event).collect(), next: page.next }))
    }
}

/// What one pass has done.
#[derive(Clone, Copy, PartialEq)]
enum Passed {
    /// It worked on an operation, which has something to do again after this pause.
    Worked(Option<Duration>),
    /// No operation has anything to do now.
    Nothing,
}

/// The number of events for a quarter of a second.
fn batch(rate: Option<u32>) -> u32 {
    rate.map_or(BATCH, |rate| (rate / 4).clamp(1, BATCH))
}
