//! Cron jobs, as a store knows them: one row for each job, and a lease on it while it runs.

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
    /// Its name: one row for all instances.
    pub name: &'a str,
    /// Its cron expression, for people; a store does not read it.
    pub schedule: &'a str,
    /// The zone of it.
    pub zone: &'a str,
    /// When it runs next; None: never again.
    pub next_slot: Option<OffsetDateTime>,
}

impl JobPlan<'_> {
    /// Refuses what a store should not have to ask about.
    pub(crate) fn check(&self) -> Result<()> {
        limits::name("job", self.name)?;
        limits::text("schedule", self.schedule, limits::LABEL_CHARS)?;
        limits::text("zone", self.zone, limits::LABEL_CHARS)
    }
}

/// A run that wants to begin.
#[derive(Debug, Clone)]
pub struct JobStart<'a> {
    /// Of which job.
    pub name: &'a str,
    /// For which slot; None: outside of any, because somebody asked.
    pub slot: Option<OffsetDateTime>,
    /// When the job runs next after this; None: as it was.
    pub next_slot: Option<OffsetDateTime>,
    /// For whom: a name with an incarnation in it, for people to read; the token is what counts.
    pub owner: &'a str,
    /// For how long, unless it is extended.
    pub lease: Duration,
}

impl JobStart<'_> {
    /// Refuses what a store should not have to ask about.
    pub(crate) fn check(&self) -> Result<()> {
        limits::name("job", self.name)?;
        limits::text("owner", self.owner, limits::LABEL_CHARS)?;
        match self.lease.is_zero() {
            true => Err(Error::invalid("lease", "must be longer than nothing".into())),
            false => Ok(()),
        }
    }
}

/// How a run ended, with what it has to say: kept as [`limits::error_text`] makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// It is done.
    Done(String),
    /// It failed, panicked or took too long.
    Failed(String),
}

impl JobOutcome {
    /// What is kept as the result and as the error; one of them is there.
    pub(crate) fn texts(&self) -> (Option<String>, Option<String>) {
        match self {
            Self::Done(text) => (Some(limits::error_text(text)), None),
            Self::Failed(text) => (None, Some(limits::error_text(text))),
        }
    }
}

/// How a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState {
    /// Its name.
    pub name: String,
    /// Its cron expression.
    pub schedule: String,
    /// The zone of it.
    pub zone: String,
    /// When the job was first planned, or last given another schedule: what was due before is not its business.
    pub since: OffsetDateTime,
    /// When it runs next.
    pub next_slot: Option<OffsetDateTime>,
    /// The last slot that was begun. None of its time or earlier is begun again, whatever the clock says.
    pub last_slot: Option<OffsetDateTime>,
    /// When the last run began.
    pub fired_at: Option<OffsetDateTime>,
    /// Who ran it.
    pub owner: Option<String>,
    /// Until when somebody holds it. It has begun and not said how it ended; past this time, it never will.
    pub lock_until: Option<OffsetDateTime>,
    /// When a run last said how it ended.
    pub finished_at: Option<OffsetDateTime>,
    /// What it said.
    pub outcome: Option<JobOutcome>,
}
