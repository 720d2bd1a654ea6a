//! Cron jobs and the leases of their runs.

use std::time::Duration;

use time::OffsetDateTime;

use super::Sessions;
use super::error::meaning;
use crate::error::Result;
use crate::store::batch::millis;
use crate::store::job::JobRow;
use crate::store::{JobOutcome, JobPlan, JobStart, JobState, Token};

pub(super) async fn plan_job(pool: &Sessions, plan: &JobPlan<'_>) -> Result<()> {
    plan.check()?;
    let query = sqlx::query(sql!("plan_job")).bind(plan.name).bind(plan.schedule).bind(plan.zone);
    query.bind(plan.next_slot).execute(pool).await.map_err(meaning)?;
    Ok(())
}

pub(super) async fn begin_job(pool: &Sessions, start: &JobStart<'_>) -> Result<Option<Token>> {
    start.check()?;
    let token = Token::fresh();
    let query = sqlx::query(sql!("begin_job"))
        .bind(start.slot)
        .bind(start.next_slot)
        .bind(start.owner)
        .bind(token.0)
        .bind(millis(start.lease))
        .bind(start.name)
        .bind(start.slot)
        .bind(start.slot)
        .bind(start.slot);
    let begun = query.execute(pool).await.map_err(meaning)?.rows_affected() == 1;
    Ok(begun.then_some(token))
}

pub(super) async fn extend_job(pool: &Sessions, name: &str, token: Token, lease: Duration) -> Result<bool> {
    let query = sqlx::query(sql!("extend_job")).bind(millis(lease)).bind(name).bind(token.0);
    Ok(query.execute(pool).await.map_err(meaning)?.rows_affected() == 1)
}

pub(super) async fn finish_job(pool: &Sessions, name: &str, token: Token, outcome: &JobOutcome) -> Result<bool> {
    let (result, error) = outcome.texts();
    let query = sqlx::query(sql!("finish_job")).bind(result).bind(error).bind(name).bind(token.0);
    Ok(query.execute(pool).await.map_err(meaning)?.rows_affected() == 1)
}

pub(super) async fn jobs(pool: &Sessions) -> Result<Vec<JobState>> {
    let rows: Vec<JobRow<OffsetDateTime>> = sqlx::query_as(sql!("jobs")).fetch_all(pool).await.map_err(meaning)?;
    Ok(rows.into_iter().map(|row| JobState::of(row, |time| time)).collect())
}
