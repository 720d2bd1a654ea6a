//! Cron jobs and the leases of their runs.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::state::{State, span};
use crate::envelope::trim;
use crate::error::Result;
use crate::store::{JobOutcome, JobPlan, JobRuns, JobStart, JobState, Token};

#[derive(Clone)]
pub(super) struct JobRow {
    state: JobState,
    /// The token of the current run.
    token: Option<Token>,
}

impl JobRow {
    #[cfg(feature = "testing")]
    pub(super) fn age(&mut self, by: time::Duration) {
        let JobState { since, next_slot, last_slot, fired_at, lock_until, finished_at, .. } = &mut self.state;
        *since -= by;
        for time in [next_slot, last_slot, fired_at, lock_until, finished_at].into_iter().flatten() {
            *time -= by;
        }
    }
}

#[async_trait]
impl JobRuns for MemoryStore {
    async fn plan_job(&self, plan: &JobPlan<'_>) -> Result<()> {
        plan.check()?;
        self.write(|state, now| {
            let unknown = || JobRow {
                state: JobState {
                    name: plan.name.into(),
                    schedule: plan.schedule.into(),
                    zone: plan.zone.into(),
                    since: now,
                    next_slot: None,
                    last_slot: None,
                    fired_at: None,
                    owner: None,
                    lock_until: None,
                    finished_at: None,
                    outcome: None,
                },
                token: None,
            };
            let job = &mut state.jobs.entry(plan.name.into()).or_insert_with(unknown).state;
            if (job.schedule.as_str(), job.zone.as_str()) != (plan.schedule, plan.zone) {
                // Another schedule counts as a new job: it does not catch up on slots from before.
                (job.schedule, job.zone, job.since) = (plan.schedule.into(), plan.zone.into(), now);
            }
            job.next_slot = plan.next_slot.map(trim);
        })
        .await;
        Ok(())
    }

    async fn begin_job(&self, start: &JobStart<'_>) -> Result<Option<Token>> {
        start.check()?;
        Ok(self
            .write(|state, now| {
                let row = state.jobs.get_mut(start.name)?;
                let job = &mut row.state;
                if row.token.is_some() && job.lock_until.is_some_and(|until| until > now) {
                    return None;
                }
                if let Some(slot) = start.slot.map(trim) {
                    // The slot has come and is later than the last one begun, so it fires neither early nor twice,
                    // whatever the caller's clock shows.
                    if slot > now || job.last_slot.is_some_and(|last| slot <= last) {
                        return None;
                    }
                    job.last_slot = Some(slot);
                }
                let token = Token::fresh();
                job.next_slot = start.next_slot.map(trim).or(job.next_slot);
                job.fired_at = Some(now);
                job.owner = Some(start.owner.into());
                job.lock_until = Some(now + span(start.lease));
                row.token = Some(token);
                Some(token)
            })
            .await)
    }

    async fn extend_job(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        Ok(self
            .write(|state, now| match state.held_job(name, token) {
                Some(row) => {
                    row.state.lock_until = Some(now + span(lease));
                    true
                }
                None => false,
            })
            .await)
    }

    async fn finish_job(&self, name: &str, token: Token, outcome: &JobOutcome) -> Result<bool> {
        Ok(self
            .write(|state, now| {
                let Some(row) = state.held_job(name, token) else {
                    return false;
                };
                let (result, error) = outcome.texts();
                row.state.outcome = result.map(JobOutcome::Done).or(error.map(JobOutcome::Failed));
                row.state.finished_at = Some(now);
                row.state.lock_until = None;
                row.token = None;
                true
            })
            .await)
    }

    async fn jobs(&self) -> Result<Vec<JobState>> {
        Ok(self.read(|state, _| state.jobs()))
    }
}

impl State {
    pub(super) fn jobs(&self) -> Vec<JobState> {
        self.jobs.values().map(|row| row.state.clone()).collect()
    }

    /// The job, if the caller still holds it.
    fn held_job(&mut self, name: &str, token: Token) -> Option<&mut JobRow> {
        self.jobs.get_mut(name).filter(|row| row.token == Some(token))
    }
}
