//! Cron jobs in a store: one row per job, and a lease on it during a run.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::Token;
use crate::error::{Error, Result};
use crate::limits;

/// Cron jobs and the leases of their runs.
#[async_trait]
pub trait JobRuns: Send + Sync {
    /// Stores a job's schedule and its next slot. A job that was unknown, or that had another schedule, belongs to this
    /// schedule from now on: [`JobState::since`].
    async fn plan_job(&self, plan: &JobPlan<'_>) -> Result<()>;

    /// Begins a run of a planned job, if no unexpired lease is held on it and its slot has come and is later than the last one
    /// begun: each slot fires once, and no two runs overlap. Returns `None` if the caller may not run it.
    async fn begin_job(&self, start: &JobStart<'_>) -> Result<Option<Token>>;

    /// Extends the lease of a run to `lease` from now. Returns false if the caller does not hold it any more.
    async fn extend_job(&self, name: &str, token: Token, lease: Duration) -> Result<bool>;

    /// Records how a run ended, and releases the job. Returns false, and writes nothing, if the caller did not hold it any
    /// more. A token that no later run has replaced counts even after its lease ran out.
    async fn finish_job(&self, name: &str, token: Token, outcome: &JobOutcome) -> Result<bool>;

    /// The state of every job, by name.
    async fn jobs(&self) -> Result<Vec<JobState>>;
}

/// A job and its schedule.
#[derive(Debug, Clone)]
pub struct JobPlan<'a> {
    /// Its name, shared by all instances.
    pub name: &'a str,
    /// Its cron expression, for people. A store does not parse it.
    pub schedule: &'a str,
    /// Its time zone.
    pub zone: &'a str,
    /// The next slot; `None` if there is none.
    pub next_slot: Option<OffsetDateTime>,
}

impl JobPlan<'_> {
    /// Validates the fields, so that stores do not have to.
    pub(crate) fn check(&self) -> Result<()> {
        limits::name("job", self.name)?;
        limits::text("schedule", self.schedule, limits::LABEL_CHARS)?;
        limits::text("zone", self.zone, limits::LABEL_CHARS)
    }
}

/// A run to begin.
#[derive(Debug, Clone)]
pub struct JobStart<'a> {
    /// The job.
    pub name: &'a str,
    /// The slot; `None` for a run on request, outside the schedule.
    pub slot: Option<OffsetDateTime>,
    /// The slot after this one; `None` leaves it unchanged.
    pub next_slot: Option<OffsetDateTime>,
    /// The runner's name with an incarnation, for people to read. Only the token proves ownership.
    pub owner: &'a str,
    /// How long the lease lasts, unless it is extended.
    pub lease: Duration,
}

impl JobStart<'_> {
    /// Validates the fields, so that stores do not have to.
    pub(crate) fn check(&self) -> Result<()> {
        limits::name("job", self.name)?;
        limits::text("owner", self.owner, limits::LABEL_CHARS)?;
        if self.lease.is_zero() { Err(Error::invalid("lease", "must be longer than nothing".into())) } else { Ok(()) }
    }
}

/// How a run ended, with its message, stored as [`limits::error_text`] shortens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// It succeeded.
    Done(String),
    /// It failed, panicked or timed out.
    Failed(String),
}

impl JobOutcome {
    /// The stored result and the stored error. Exactly one is `Some`.
    pub(crate) fn texts(&self) -> (Option<String>, Option<String>) {
        match self {
            Self::Done(text) => (Some(limits::error_text(text)), None),
            Self::Failed(text) => (None, Some(limits::error_text(text))),
        }
    }
}

/// The state of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState {
    /// Its name.
    pub name: String,
    /// Its cron expression.
    pub schedule: String,
    /// Its time zone.
    pub zone: String,
    /// When the job was first planned, or last got another schedule. Slots before this time are not run.
    pub since: OffsetDateTime,
    /// When it runs next.
    pub next_slot: Option<OffsetDateTime>,
    /// The last slot that was begun. No slot at or before it is begun again, whatever the clock shows.
    pub last_slot: Option<OffsetDateTime>,
    /// When the last run began.
    pub fired_at: Option<OffsetDateTime>,
    /// Who ran it last.
    pub owner: Option<String>,
    /// The end of the current lease. It is set while a run has not reported its end; a run whose lease has passed
    /// never does.
    pub lock_until: Option<OffsetDateTime>,
    /// When a run last reported its end.
    pub finished_at: Option<OffsetDateTime>,
    /// How the last run ended.
    pub outcome: Option<JobOutcome>,
}
