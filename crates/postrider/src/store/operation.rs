//! Bulk operations: what was asked, how far it has come, and who works on it.

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
    /// Its id: the caller's, so that asking twice is asking once.
    pub id: String,
    /// Which events, of those that are there now.
    pub filter: Filter,
    /// One consumer's part of them only.
    pub consumer: Option<String>,
    /// How many a second at most; None: as many as go.
    pub rate_per_second: Option<u32>,
    /// What each is measured by.
    pub rules: RedriveRules,
    /// Why, for people.
    pub reason: Option<String>,
    /// Who asked, for people.
    pub requested_by: Option<String>,
    /// How many match, as far as somebody has counted.
    pub total: Option<u64>,
}

impl NewOperation {
    /// Of all that matches, without haste.
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

/// Where an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum OperationState {
    /// Somebody works on it, or will.
    Running,
    /// Until somebody resumes it.
    Paused,
    /// For good, somewhere on its way.
    Cancelled,
    /// To its end.
    Done,
}

impl OperationState {
    /// The word for it everywhere: SQL, API, console.
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

/// What a person tells an operation to do.
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
    /// From which states to which.
    pub(crate) fn states(self) -> ([&'static str; 2], OperationState) {
        match self {
            Self::Pause => (["RUNNING", "RUNNING"], OperationState::Paused),
            Self::Resume => (["PAUSED", "PAUSED"], OperationState::Running),
            Self::Cancel => (["RUNNING", "PAUSED"], OperationState::Cancelled),
        }
    }
}

/// An operation as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// What was asked.
    pub request: NewOperation,
    /// Where it stands.
    pub state: OperationState,
    /// Events redriven.
    pub done: u64,
    /// Events that a rule forbade although they are not finished: too often, too old, being worked on.
    pub failed: u64,
    /// Events that needed nothing any more.
    pub skipped: u64,
    /// Where it goes on.
    pub position: Option<Cursor>,
    /// Who works on it.
    pub owner: Option<String>,
    /// When it was asked for.
    pub created_at: OffsetDateTime,
    /// When it last came further.
    pub updated_at: OffsetDateTime,
    /// When it ended.
    pub finished_at: Option<OffsetDateTime>,
}

/// A batch of an operation's work.
#[derive(Debug, Clone)]
pub struct Advance<'a> {
    /// Which operation.
    pub id: &'a str,
    /// The claim under which it is worked on.
    pub token: Token,
    /// The events of a page of its list.
    pub events: &'a [i64],
    /// Where to go on; None: that was the last.
    pub next: Option<Cursor>,
    /// How long the claim is to last from now.
    pub lease: Duration,
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) done: i64,
    pub(super) failed: i64,
    pub(super) skipped: i64,
}

impl Tally {
    /// `asked` events were on the page, and these are the answers for those that are still there.
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
                    | Refusal::External,
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
