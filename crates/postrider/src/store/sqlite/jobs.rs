//! Cron jobs and the leases of their runs.

use std::time::Duration;

use sqlx::sqlite::SqlitePool;

use super::{own, rows};
use crate::error::Result;
use crate::store::batch::{millis, unix_ms};
use crate::store::job::JobRow;
use crate::store::{JobOutcome, JobPlan, JobStart, JobState, Token};

pub(super) async fn plan_job(pool: &SqlitePool, plan: &JobPlan<'_>) -> Result<()> {
    plan.check()?;
    let query = sqlx::query(sql!("plan_job")).bind(plan.name).bind(plan.schedule).bind(plan.zone);
    query.bind(plan.next_slot.map(unix_ms)).execute(pool).await.map_err(own)?;
    Ok(())
}

pub(super) async fn begin_job(pool: &SqlitePool, start: &JobStart<'_>) -> Result<Option<Token>> {
    start.check()?;
    let token = Token::fresh();
    let begun = sqlx::query(sql!("begin_job"))
        .bind(start.name)
        .bind(start.slot.map(unix_ms))
        .bind(start.next_slot.map(unix_ms))
        .bind(token.0)
        .bind(start.owner)
        .bind(millis(start.lease))
        .fetch_optional(pool)
        .await
        .map_err(own)?;
    Ok(begun.map(|_| token))
}

pub(super) async fn extend_job(pool: &SqlitePool, name: &str, token: Token, lease: Duration) -> Result<bool> {
    let query = sqlx::query(sql!("extend_job")).bind(name).bind(token.0).bind(millis(lease));
    Ok(query.execute(pool).await.map_err(own)?.rows_affected() == 1)
}

pub(super) async fn finish_job(pool: &SqlitePool, name: &str, token: Token, outcome: &JobOutcome) -> Result<bool> {
    let (result, error) = outcome.texts();
    let query = sqlx::query(sql!("finish_job")).bind(name).bind(token.0).bind(result).bind(error);
    Ok(query.execute(pool).await.map_err(own)?.rows_affected() == 1)
}

pub(super) async fn jobs(pool: &SqlitePool) -> Result<Vec<JobState>> {
    let found: Vec<JobRow<i64>> = sqlx::query_as(sql!("jobs")).fetch_all(pool).await.map_err(own)?;
    Ok(found.into_iter().map(|row| JobState::of(row, rows::time)).collect())
}
