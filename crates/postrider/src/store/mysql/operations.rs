//! Bulk operations and the leases under which they are worked on.

use std::time::Duration;

use time::OffsetDateTime;

use super::MySqlStore;
use super::error::meaning;
use super::redrive::redrive_many;
use crate::error::{Error, Result};
use crate::store::batch::millis;
use crate::store::operation::{OperationRow, Tally};
use crate::store::redrive::Ask;
use crate::store::{Advance, NewOperation, Operation, Steer, Store, Token};

fn operation(row: OperationRow<OffsetDateTime>) -> Result<Operation> {
    Operation::of(row, |time| time)
}

pub(super) async fn create_operation(store: &MySqlStore, new: &NewOperation) -> Result<Operation> {
    new.check()?;
    let (filter, options) = new.texts()?;
    let total = new.total.map(|total| i64::try_from(total).unwrap_or(i64::MAX));
    let query = sqlx::query(sql!("create_operation")).bind(&new.id).bind(filter).bind(options).bind(total);
    query.execute(&store.work).await.map_err(meaning)?;
    find(store, &new.id).await?.ok_or_else(|| Error::Store("an operation was made, and is gone".into()))
}

pub(super) async fn find(store: &MySqlStore, id: &str) -> Result<Option<Operation>> {
    let row = sqlx::query_as(sql!("operation")).bind(id).fetch_optional(&store.work).await.map_err(meaning)?;
    row.map(operation).transpose()
}

pub(super) async fn operations(store: &MySqlStore, limit: u32) -> Result<Vec<Operation>> {
    let query = sqlx::query_as(sql!("operations")).bind(i64::from(limit));
    query.fetch_all(&store.work).await.map_err(meaning)?.into_iter().map(operation).collect()
}

pub(super) async fn steer_operation(store: &MySqlStore, id: &str, steer: Steer) -> Result<Option<Operation>> {
    let ([from, or_from], to) = steer.states();
    let query =
        sqlx::query(sql!("steer_operation")).bind(to.as_str()).bind(to.as_str()).bind(id).bind(from).bind(or_from);
    query.execute(&store.work).await.map_err(meaning)?;
    find(store, id).await
}

pub(super) async fn claim_operation(
    store: &MySqlStore,
    owner: &str,
    lease: Duration,
) -> Result<Option<(Operation, Token)>> {
    let mut tx = store.work.begin().await.map_err(meaning)?;
    let lock = sqlx::query_scalar(sql!("claim_operation_lock"));
    let id: Option<String> = lock.fetch_optional(&mut *tx).await.map_err(meaning)?;
    let Some(id) = id else {
        // Waited for, here and below: whoever claims next skips what is still locked.
        tx.rollback().await.map_err(meaning)?;
        return Ok(None);
    };
    let token = Token::fresh();
    let query = sqlx::query(sql!("claim_operation")).bind(token.0).bind(owner).bind(millis(lease)).bind(&id);
    query.execute(&mut *tx).await.map_err(meaning)?;
    let row = sqlx::query_as(sql!("operation")).bind(&id).fetch_one(&mut *tx).await.map_err(meaning)?;
    tx.commit().await.map_err(meaning)?;
    Ok(Some((operation(row)?, token)))
}

pub(super) async fn advance_operation(store: &MySqlStore, advance: &Advance<'_>) -> Result<Option<Operation>> {
    let subscriptions = store.subscriptions(None).await?;
    let Some(known) = find(store, advance.id).await? else { return Ok(None) };
    let mut tx = store.work.begin().await.map_err(meaning)?;
    let lock = sqlx::query(sql!("advance_operation_lock")).bind(advance.id).bind(advance.token.0);
    if lock.fetch_optional(&mut *tx).await.map_err(meaning)?.is_none() {
        tx.rollback().await.map_err(meaning)?;
        return Ok(None);
    }
    let request = &known.request;
    let ask = Ask { consumer: request.consumer.as_deref(), rules: &request.rules, subscriptions: &subscriptions };
    let answers = redrive_many(&mut tx, advance.events, &ask).await?;
    let tally = Tally::of(advance.events.len(), &answers);
    let next = advance.next.map(|next| next.0);
    sqlx::query(sql!("advance_operation"))
        .bind(tally.done)
        .bind(tally.failed)
        .bind(tally.skipped)
        .bind(next)
        .bind(next)
        .bind(next)
        .bind(millis(advance.lease))
        .bind(advance.id)
        .execute(&mut *tx)
        .await
        .map_err(meaning)?;
    let row = sqlx::query_as(sql!("operation")).bind(advance.id).fetch_one(&mut *tx).await.map_err(meaning)?;
    tx.commit().await.map_err(meaning)?;
    operation(row).map(Some)
}

pub(super) async fn release_operation(store: &MySqlStore, id: &str, token: Token) -> Result<bool> {
    let query = sqlx::query(sql!("release_operation")).bind(id).bind(token.0);
    Ok(query.execute(&store.work).await.map_err(meaning)?.rows_affected() == 1)
}
