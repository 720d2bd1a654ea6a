//! Cron jobs and the leases of their runs.

use std::time::Duration;

use time::OffsetDateTime;

use super::{Sessions, own};
use crate::error::Result;
use crate::store::batch::millis;
use crate::store::job::JobRow;
use crate::store::{JobOutcome, JobPlan, JobStart, JobState, Token};

pub(super) async fn plan_job(pool: &Sessions, plan: &JobPlan<'_>) -> Result<()> {
    plan.check()?;
    let query = sqlx::query(sql!("plan_job")).bind(plan.name).bind(plan.schedule).bind(plan.zone);
    query.bind(plan.next_slot).execute(pool).await.map_err(own)?;
    Ok(())
}

pub(super) async fn begin_job(pool: &Sessions, start: &JobStart<'_>) -> Result<Option<Token>> {
    start.check()?;
    let token = Token::fresh();
    let begun = sqlx::query(sql!("begin_job"))
        .bind(start.name)
        .bind(start.slot)
        .bind(start.next_slot)
        .bind(token.0)
        .bind(start.owner)
        .bind(millis(start.lease))
        .fetch_optional(pool)
        .await
        .map_err(own)?;
    Ok(begun.map(|_| token))
}

pub(super) async fn extend_job(pool: &Sessions, name: &str, token: Token, lease: Duration) -> Result<bool> {
    let query = sqlx::query(sql!("extend_job")).bind(name).bind(token.0).bind(millis(lease));
    Ok(query.execute(pool).await.map_err(own)?.rows_affected() == 1)
}

pub(super) async fn finish_job(pool: &Sessions, name: &str, token: Token, outcome: &JobOutcome) -> Result<bool> {
    let (result, error) = outcome.texts();
    let query = sqlx::query(sql!("finish_job")).bind(name).bind(token.0).bind(result).bind(error);
    Ok(query.execute(pool).await.map_err(own)?.rows_affected() == 1)
}

pub(super) async fn jobs(pool: &Sessions) -> Result<Vec<JobState>> {
    let rows: Vec<JobRow<OffsetDateTime>> = sqlx::query_as(sql!("jobs")).fetch_all(pool).await.map_err(own)?;
    Ok(rows.into_iter().map(|row| JobState::of(row, |time| time)).collect())
}
