//! Cron jobs and the leases of their runs.

use std::time::Duration;

use async_trait::async_trait;

use super::{SqlStore, Time, stored, time};
use crate::error::Result;
use crate::store::batch::millis;
use crate::store::sql::retrying;
use crate::store::{JobOutcome, JobPlan, JobRuns, JobStart, JobState, Token};

#[async_trait]
impl JobRuns for SqlStore {
    async fn plan_job(&self, plan: &JobPlan<'_>) -> Result<()> {
        plan.check()?;
        retrying(|| async {
            let query = sqlx::query(sql!("jobs/plan_job")).bind(plan.name).bind(plan.schedule).bind(plan.zone);
            query.bind(plan.next_slot.map(stored)).execute(self.writer()?).await?;
            Ok(())
        })
        .await
    }

    async fn begin_job(&self, start: &JobStart<'_>) -> Result<Option<Token>> {
        start.check()?;
        let (token, slot) = (Token::fresh(), start.slot.map(stored));
        // Of two concurrent runs the second waits for the row, checks again, and finds the lease of the first.
        let sql = text!(
            "UPDATE postrider_job SET last_slot = coalesce($1, last_slot), next_slot = coalesce($2, next_slot), owner = $3, \
             token = $4, fired_at = ",
            now!(),
            ", lock_until = ",
            later!("$5"),
            " WHERE name = $6 AND (token IS NULL OR lock_until <= ",
            now!(),
            // The slot has come and is later than the last one begun: it fires neither early nor twice.
            ") AND ($7 OR ($8 <= ",
            now!(),
            " AND (last_slot IS NULL OR $9 > last_slot)))"
        );
        let begun = retrying(|| async {
            let query = sqlx::query(sql).bind(slot).bind(start.next_slot.map(stored)).bind(start.owner).bind(token.0);
            let query = query.bind(millis(start.lease)).bind(start.name).bind(slot.is_none()).bind(slot).bind(slot);
            Ok(query.execute(self.writer()?).await?.rows_affected() == 1)
        })
        .await?;
        Ok(begun.then_some(token))
    }

    async fn extend_job(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        let sql = text!("UPDATE postrider_job SET lock_until = ", later!("$1"), " WHERE name = $2 AND token = $3");
        retrying(|| async {
            let query = sqlx::query(sql).bind(millis(lease)).bind(name).bind(token.0);
            Ok(query.execute(self.writer()?).await?.rows_affected() == 1)
        })
        .await
    }

    async fn finish_job(&self, name: &str, token: Token, outcome: &JobOutcome) -> Result<bool> {
        let (result, error) = outcome.texts();
        let sql = text!(
            "UPDATE postrider_job SET last_result = $1, last_error = $2, token = NULL, lock_until = NULL, finished_at = ",
            now!(),
            " WHERE name = $3 AND token = $4"
        );
        retrying(|| async {
            let query = sqlx::query(sql).bind(&result).bind(&error).bind(name).bind(token.0);
            Ok(query.execute(self.writer()?).await?.rows_affected() == 1)
        })
        .await
    }

    async fn jobs(&self) -> Result<Vec<JobState>> {
        let rows: Vec<JobRow> = sqlx::query_as(text!(
            "SELECT name, schedule, zone, since, next_slot, last_slot, fired_at, owner, lock_until, finished_at, last_result, \
             last_error FROM postrider_job ORDER BY name"
        ))
        .fetch_all(self.reader())
        .await?;
        Ok(rows.into_iter().map(JobRow::state).collect())
    }
}

#[derive(sqlx::FromRow)]
struct JobRow {
    name: String,
    schedule: String,
    zone: String,
    since: Time,
    next_slot: Option<Time>,
    last_slot: Option<Time>,
    fired_at: Option<Time>,
    owner: Option<String>,
    lock_until: Option<Time>,
    finished_at: Option<Time>,
    last_result: Option<String>,
    last_error: Option<String>,
}

impl JobRow {
    fn state(self) -> JobState {
        JobState {
            name: self.name,
            schedule: self.schedule,
            zone: self.zone,
            since: time(self.since),
            next_slot: self.next_slot.map(time),
            last_slot: self.last_slot.map(time),
            fired_at: self.fired_at.map(time),
            owner: self.owner,
            lock_until: self.lock_until.map(time),
            finished_at: self.finished_at.map(time),
            outcome: self.last_result.map(JobOutcome::Done).or(self.last_error.map(JobOutcome::Failed)),
        }
    }
}
