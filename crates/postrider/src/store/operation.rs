//! Bulk operations: the request, its progress and its worker.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Cursor, Filter, Token};
use crate::error::{Error, Result};
use crate::limits;
use crate::redrive::RedriveRules;

/// Bulk operations and the leases under which [`Operations`](crate::operations::Operations) works on them.
#[async_trait]
pub trait OperationRuns: Send + Sync {
    /// Stores a bulk operation. If the id is known, nothing is written and the stored operation is returned.
    async fn create_operation(&self, new: &NewOperation) -> Result<Operation>;

    /// The operation with this id.
    async fn operation(&self, id: &str) -> Result<Option<Operation>>;

    /// Up to `limit` operations, the newest first: those before the one with the number `before`, or the newest.
    async fn operations(&self, before: Option<i64>, limit: u32) -> Result<Vec<Operation>>;

    /// The events of an operation, the oldest first. Empty if there is no such operation.
    async fn operation_items(&self, list: &ItemList) -> Result<Vec<OperationItem>>;

    /// Pauses, resumes or cancels an operation, if its state allows it; a worker that holds it can do nothing more. Returns the
    /// operation as it is then; its state tells whether the request had an effect. Returns `None` if there is none.
    async fn steer_operation(&self, id: &str, steer: Steer) -> Result<Option<Operation>>;

    /// Takes an operation that no worker holds and that has something to do now: it runs, or events that it has redriven
    /// have no result yet. The one that has waited longest comes first.
    async fn claim_operation(&self, owner: &str, lease: Duration) -> Result<Option<(Operation, Token)>>;

    /// The next piece of an operation's work, in one transaction: notes matching events as planned, notes what came of redriven
    /// ones, redrives the next planned ones by the operation's rules, and ends a step, a gate or the operation. What is done is
    /// decided by [`Operation`]'s own rules on the locked row. Returns `None`, and does nothing, if the caller does not hold the
    /// operation any more.
    async fn advance_operation(&self, advance: &Advance<'_>) -> Result<Option<Operation>>;

    /// Gives an operation back; no worker takes it before `pause` has passed. Returns false if the caller did not hold it any more.
    async fn release_operation(&self, id: &str, token: Token, pause: Duration) -> Result<bool>;
}

/// A redrive of every event that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOperation {
    /// Its id, chosen by the caller: a repeated request creates nothing.
    pub id: String,
    /// Which of the events that exist now.
    pub filter: Filter,
    /// Redrives only this consumer's part.
    pub consumer: Option<String>,
    /// Redrives only the parts of consumers that have failed. If the filter names failure groups, only of their consumers.
    pub only_failed: bool,
    /// Maximum events per second; `None` for no limit.
    pub rate_per_second: Option<u32>,
    /// Steps with gates between them; `None` redrives everything in one step without a gate.
    pub ramp: Option<Ramp>,
    /// Begins with the oldest event instead of the newest.
    pub oldest_first: bool,
    /// The rules that each event must meet.
    pub rules: RedriveRules,
    /// The reason, for people.
    pub reason: Option<String>,
    /// The requester, for people.
    pub requested_by: Option<String>,
    /// How many events match, if that was counted.
    pub total: Option<u64>,
    /// A hash of the request that asked for it, by which a repeated request is recognised.
    pub fingerprint: Option<String>,
}

/// Steps that grow, with a gate after each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ramp {
    /// The sizes of the first steps, in redriven events. One more step takes the rest.
    pub sizes: Vec<u32>,
    /// How long a gate waits for the first attempts of its step.
    pub gate: Duration,
    /// A gate stops the operation if more than this share of the results are failures.
    pub stop_above_percent: u32,
}

impl Ramp {
    /// The defaults of a gate.
    pub fn new(sizes: Vec<u32>) -> Self {
        Self { sizes, gate: Duration::from_secs(30), stop_above_percent: 20 }
    }
}

impl NewOperation {
    /// A redrive of everything that matches, without a rate limit.
    pub fn redrive(id: impl Into<String>, filter: Filter) -> Self {
        Self {
            id: id.into(),
            filter,
            consumer: None,
            only_failed: false,
            rate_per_second: None,
            ramp: None,
            oldest_first: false,
            rules: RedriveRules::default(),
            reason: None,
            requested_by: None,
            total: None,
            fingerprint: None,
        }
    }

    /// Validates the request.
    pub fn check(&self) -> Result<()> {
        limits::text("operationId", &self.id, limits::EVENT_ID_CHARS)?;
        if self.rate_per_second == Some(0) {
            return Err(Error::invalid("ratePerSecond", "must be 1 or more".into()));
        }
        for (field, text) in [("reason", &self.reason), ("requestedBy", &self.requested_by)] {
            if let Some(text) = text {
                limits::bytes(field, text, limits::INITIATOR_BYTES)?;
            }
        }
        self.ramp.as_ref().map_or(Ok(()), Ramp::check)?;
        self.filter.check()
    }
}

impl Ramp {
    fn check(&self) -> Result<()> {
        let most = limits::RAMP_STEPS;
        if !(1..=most).contains(&self.sizes.len()) {
            return Err(Error::invalid("ramp", format!("must have 1 to {most} steps, as in [1,10,100]")));
        }
        if let Some(size) = self.sizes.iter().find(|size| !(1..=limits::RAMP_STEP_EVENTS).contains(*size)) {
            let most = limits::RAMP_STEP_EVENTS;
            return Err(Error::invalid("ramp", format!("each step must have 1 to {most} events, one has {size}")));
        }
        if self.gate.is_zero() || self.gate > limits::GATE {
            let most = limits::GATE.as_secs();
            return Err(Error::invalid("gateSeconds", format!("must be 1 to {most}")));
        }
        if self.stop_above_percent > 100 {
            let given = self.stop_above_percent;
            return Err(Error::invalid("stopAbovePercent", format!("must be 0 to 100, is {given}")));
        }
        Ok(())
    }
}

/// The state of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum OperationState {
    /// A worker works on it, or will.
    Running,
    /// It stops until it is resumed.
    Paused,
    /// It was ended before it was complete.
    Cancelled,
    /// It is complete.
    Done,
}

impl OperationState {
    /// Its name in SQL, API and console.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Paused => "PAUSED",
            Self::Cancelled => "CANCELLED",
            Self::Done => "DONE",
        }
    }
}

impl std::str::FromStr for OperationState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let states = [Self::Running, Self::Paused, Self::Cancelled, Self::Done];
        let found = states.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| Error::corrupt("state of an operation", text))
    }
}

/// A request to change the state of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steer {
    /// From RUNNING to PAUSED.
    Pause,
    /// From PAUSED to RUNNING.
    Resume,
    /// From either to CANCELLED.
    Cancel,
}

/// A stored operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The request. Its total is exact as soon as the plan is complete.
    pub request: NewOperation,
    /// A small number for people.
    pub number: i64,
    /// Its state.
    pub state: OperationState,
    /// Events redriven.
    pub done: u64,
    /// Unfinished events that a rule refused: redriven too often, too old, or leased.
    pub failed: u64,
    /// Events that needed no redrive any more.
    pub skipped: u64,
    /// Where the next page of the plan starts; `None` when the plan is complete.
    pub position: Option<Cursor>,
    /// What came of the redriven events, and the steps.
    pub progress: Progress,
    /// Since when the gate after the current step waits for results.
    pub gate_since: Option<OffsetDateTime>,
    /// The worker that holds it.
    pub owner: Option<String>,
    /// When it was created.
    pub created_at: OffsetDateTime,
    /// When a worker last looked at it.
    pub updated_at: OffsetDateTime,
    /// When it ended.
    pub finished_at: Option<OffsetDateTime>,
}

/// How far an operation has come. Stored as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// Matching events that the plan has so far.
    pub planned: u64,
    /// Redriven events whose first attempt succeeded.
    pub delivered: u64,
    /// Redriven events whose first attempt failed, or that expired or were discarded before one.
    pub failed_again: u64,
    /// Redriven events without an attempt so far.
    pub open: u64,
    /// The steps. An operation without a ramp has one.
    pub steps: Vec<OperationStep>,
    /// Why it has stopped by itself.
    pub stopped_because: Option<String>,
    /// Where the round over events without a result goes on; 0 begins a new one.
    pub(crate) looked_to: i64,
    /// When a worker last looked for results.
    #[serde(with = "time::serde::rfc3339::option")]
    pub(crate) looked_at: Option<OffsetDateTime>,
    /// When the last result came.
    #[serde(with = "time::serde::rfc3339::option")]
    pub(crate) result_at: Option<OffsetDateTime>,
}

/// A step of a ramp.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationStep {
    /// How many events it redrives; `None` for the rest.
    pub size: Option<u64>,
    /// Where it stands.
    pub state: StepState,
    /// Events redriven.
    pub done: u64,
    /// Those whose first attempt succeeded.
    pub delivered: u64,
    /// Those whose first attempt failed.
    pub failed_again: u64,
    /// When its gate has decided.
    #[serde(with = "time::serde::rfc3339::option")]
    pub ended_at: Option<OffsetDateTime>,
}

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepState {
    /// Not begun.
    #[default]
    Todo,
    /// It redrives, or waits at its gate.
    Running,
    /// Its gate has let it pass.
    Passed,
    /// Too many of its events failed again, or none had a result in time.
    Stopped,
}

/// What an operation has done about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ItemOutcome {
    /// It waits for its turn.
    Planned,
    /// Redriven, without an attempt so far.
    Open,
    /// Redriven, and its first attempt succeeded.
    Delivered,
    /// Redriven, and its first attempt failed.
    FailedAgain,
    /// It needed no redrive any more.
    Skipped,
    /// A rule refused it.
    Refused,
}

impl ItemOutcome {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 6] =
        [Self::Planned, Self::Open, Self::Delivered, Self::FailedAgain, Self::Skipped, Self::Refused];

    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Open => "open",
            Self::Delivered => "delivered",
            Self::FailedAgain => "failedAgain",
            Self::Skipped => "skipped",
            Self::Refused => "refused",
        }
    }

    /// Its code in stores.
    pub(crate) fn code(self) -> i16 {
        self as i16
    }

    /// The outcome with this code.
    pub(crate) fn of(code: i16) -> Result<Self> {
        let known = usize::try_from(code).ok().and_then(|code| Self::ALL.get(code)).copied();
        known.ok_or_else(|| Error::corrupt("outcome of an operation's event", &code.to_string()))
    }
}

/// An event of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationItem {
    /// The event's place in the order of events.
    pub sequence: i64,
    /// The event.
    pub event_id: String,
    /// The step that took it, counted from 0.
    pub step: u32,
    /// What was done about it.
    pub outcome: ItemOutcome,
    /// The rule that refused or skipped it, as [`Refusal::code`](crate::redrive::Refusal::code) names it.
    pub rule: Option<String>,
}

/// Which events of an operation to list.
#[derive(Debug, Clone)]
pub struct ItemList {
    /// The operation.
    pub operation: String,
    /// With this outcome; `None` for any.
    pub outcome: Option<ItemOutcome>,
    /// Those after the event with this sequence; 0 begins.
    pub after: i64,
    /// Events at most: 1 to [`limits::PAGE_EVENTS`].
    pub limit: u32,
}

/// One piece of an operation's work.
#[derive(Debug, Clone)]
pub struct Advance<'a> {
    /// The operation.
    pub id: &'a str,
    /// The token of the worker's claim.
    pub token: Token,
    /// While the plan is not complete: the next page of its list.
    pub page: Option<PlanPage>,
    /// Events to redrive, at most.
    pub batch: u32,
    /// How long the claim lasts from now.
    pub lease: Duration,
}

/// A page of the events that match.
#[derive(Debug, Clone)]
pub struct PlanPage {
    /// Where it starts: the position of the operation that it was read for.
    pub after: Option<Cursor>,
    /// Sequence and id of each.
    pub events: Vec<(i64, String)>,
    /// Where the next page starts; `None` after the last.
    pub next: Option<Cursor>,
}

impl PlanPage {
    /// Whether it is the page that the operation's plan needs next.
    pub(crate) fn follows(&self, operation: &Operation) -> bool {
        operation.position.is_some() && operation.position == self.after
    }
}
