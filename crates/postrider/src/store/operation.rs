//! Bulk operations: the request, its progress and its worker.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Cursor, Filter, Token};
use crate::error::{Error, Result};
use crate::limits;
use crate::redrive::{RedriveRules, Refusal};

/// Bulk operations and the leases under which [`Operations`](crate::operations::Operations) works on them.
#[async_trait]
pub trait OperationRuns: Send + Sync {
    /// Stores a bulk operation. If the id is known, nothing is written and the stored operation is returned.
    async fn create_operation(&self, new: &NewOperation) -> Result<Operation>;

    /// The operation with this id.
    async fn operation(&self, id: &str) -> Result<Option<Operation>>;

    /// The newest operations.
    async fn operations(&self, limit: u32) -> Result<Vec<Operation>>;

    /// Pauses, resumes or cancels an operation, if its state allows it; a worker that holds it can do nothing more. Returns the
    /// operation as it is then; its state tells whether the request had an effect. Returns `None` if there is none.
    async fn steer_operation(&self, id: &str, steer: Steer) -> Result<Option<Operation>>;

    /// Takes the oldest running operation that no worker holds.
    async fn claim_operation(&self, owner: &str, lease: Duration) -> Result<Option<(Operation, Token)>>;

    /// Redrives a batch of events by the operation's rules, and counts them, in one transaction. Returns `None`, and does
    /// nothing, if the caller does not hold the operation any more or it is not running.
    async fn advance_operation(&self, advance: &Advance<'_>) -> Result<Option<Operation>>;

    /// Gives an operation back. Returns false if the caller did not hold it any more.
    async fn release_operation(&self, id: &str, token: Token) -> Result<bool>;
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
    /// Maximum events per second; `None` for no limit.
    pub rate_per_second: Option<u32>,
    /// The rules that each event must meet.
    pub rules: RedriveRules,
    /// The reason, for people.
    pub reason: Option<String>,
    /// The requester, for people.
    pub requested_by: Option<String>,
    /// How many events match, if that was counted.
    pub total: Option<u64>,
}

impl NewOperation {
    /// A redrive of everything that matches, without a rate limit.
    pub fn redrive(id: impl Into<String>, filter: Filter) -> Self {
        Self {
            id: id.into(),
            filter,
            consumer: None,
            rate_per_second: None,
            rules: RedriveRules::default(),
            reason: None,
            requested_by: None,
            total: None,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        limits::text("operationId", &self.id, limits::EVENT_ID_CHARS)?;
        if self.rate_per_second == Some(0) {
            return Err(Error::invalid("ratePerSecond", "must be 1 or more".into()));
        }
        for (field, text) in [("reason", &self.reason), ("requestedBy", &self.requested_by)] {
            if let Some(text) = text {
                limits::bytes(field, text, limits::INITIATOR_BYTES)?;
            }
        }
        self.filter.check()
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

impl Steer {
    /// The states that it applies to, and the new state.
    pub(crate) fn states(self) -> ([&'static str; 2], OperationState) {
        match self {
            Self::Pause => (["RUNNING", "RUNNING"], OperationState::Paused),
            Self::Resume => (["PAUSED", "PAUSED"], OperationState::Running),
            Self::Cancel => (["RUNNING", "PAUSED"], OperationState::Cancelled),
        }
    }
}

/// A stored operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The request.
    pub request: NewOperation,
    /// Its state.
    pub state: OperationState,
    /// Events redriven.
    pub done: u64,
    /// Unfinished events that a rule refused: redriven too often, too old, or leased.
    pub failed: u64,
    /// Events that needed no redrive any more.
    pub skipped: u64,
    /// Where the next batch starts.
    pub position: Option<Cursor>,
    /// The worker that holds it.
    pub owner: Option<String>,
    /// When it was created.
    pub created_at: OffsetDateTime,
    /// When it last made progress.
    pub updated_at: OffsetDateTime,
    /// When it ended.
    pub finished_at: Option<OffsetDateTime>,
}

/// One batch of an operation.
#[derive(Debug, Clone)]
pub struct Advance<'a> {
    /// The operation.
    pub id: &'a str,
    /// The token of the worker's claim.
    pub token: Token,
    /// The events of a page of its list.
    pub events: &'a [i64],
    /// Where the next batch starts; `None` after the last.
    pub next: Option<Cursor>,
    /// How long the claim lasts from now.
    pub lease: Duration,
}

/// The counts of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) done: i64,
    pub(super) failed: i64,
    pub(super) skipped: i64,
}

impl Tally {
    /// Counts a page of `asked` events; `answers` has those that still exist.
    pub(super) fn of(asked: usize, answers: &[(i64, std::result::Result<(), Refusal>)]) -> Self {
        let mut tally = Self { skipped: asked.saturating_sub(answers.len()) as i64, ..Self::default() };
        for (_, answer) in answers {
            match answer {
                Ok(()) => tally.done += 1,
                Err(
                    Refusal::TooMany(_)
                    | Refusal::TooOld(_)
                    | Refusal::InProgress
                    | Refusal::UnknownConsumer
                    | Refusal::External
                    // A redrive is never refused for these.
                    | Refusal::NotWaiting
                    | Refusal::NoSuchConsumer(_)
                    | Refusal::NameInUse(_)
                    | Refusal::BrokerQueue(_)
                    | Refusal::SecondVia { .. }
                    | Refusal::DeliveriesWait(_)
                    | Refusal::Stale,
                ) => tally.failed += 1,
                Err(
                    Refusal::UnknownEvent
                    | Refusal::Consumed
                    | Refusal::Expired
                    | Refusal::NotSent
                    | Refusal::SentRecently(_),
                ) => tally.skipped += 1,
            }
        }
        tally
    }
}
