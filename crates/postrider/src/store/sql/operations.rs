//! Bulk operations and the leases under which they are worked on.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::audit::commit;
use super::redrives::redrive_many;
use super::{Conn, SqlStore, Time, time};
use crate::error::{Error, Result};
use crate::redrive::RedriveRules;
use crate::store::audit::Change;
use crate::store::batch::millis;
use crate::store::decide::Request;
use crate::store::operation::Tally;
use crate::store::sql::{is_duplicate, json, retrying};
use crate::store::{
    Advance, Cursor, NewOperation, Operation, OperationRuns, OperationState, Steer, Subscriptions, Token,
};

#[async_trait]
impl OperationRuns for SqlStore {
    async fn create_operation(&self, new: &NewOperation) -> Result<Operation> {
        new.check()?;
        let options = Options {
            consumer: new.consumer.clone(),
            rate_per_second: new.rate_per_second,
            rules: new.rules,
            reason: new.reason.clone(),
            requested_by: new.requested_by.clone(),
        };
        let (filter, options) = (json(&new.filter)?, json(&options)?);
        let total = new.total.map(|total| i64::try_from(total).unwrap_or(i64::MAX));
        let sql = text!(
            "INSERT INTO postrider_operation (id, state, filter, options, total, position, created_at, updated_at) \
             VALUES ($1, 'RUNNING', $2, $3, $4, 1 + coalesce((SELECT max(seq) FROM postrider_event), 0), ",
            now!(),
            ", ",
            now!(),
            ")"
        );
        retrying(|| async {
            let query = sqlx::query(sql).bind(&new.id).bind(&filter).bind(&options).bind(total);
            let mut tx = self.write().await?;
            match query.execute(&mut *tx).await {
                Ok(_) => commit(tx, &Change::created(new)).await,
                Err(error) if is_duplicate(&error) => Ok(tx.rollback().await?),
                Err(error) => Err(error.into()),
            }
        })
        .await?;
        let stored = self.operation(&new.id).await?;
        stored.ok_or_else(|| Error::Store("the operation was removed right after it was stored".into()))
    }

    async fn operation(&self, id: &str) -> Result<Option<Operation>> {
        let row: Option<OperationRow> = sqlx::query_as(FIND).bind(id).fetch_optional(self.reader()).await?;
        row.map(OperationRow::operation).transpose()
    }

    async fn operations(&self, limit: u32) -> Result<Vec<Operation>> {
        let query = sqlx::query_as(text!(
            "SELECT id, state, filter, options, total, done, failed, skipped, position, lock_owner, created_at, updated_at, \
             finished_at FROM postrider_operation ORDER BY number DESC LIMIT $1"
        ));
        let rows: Vec<OperationRow> = query.bind(i64::from(limit)).fetch_all(self.reader()).await?;
        rows.into_iter().map(OperationRow::operation).collect()
    }

    async fn steer_operation(&self, id: &str, steer: Steer) -> Result<Option<Operation>> {
        let ([from, or_from], to) = steer.states();
        let lock = text!("SELECT state FROM postrider_operation WHERE id = $1", for_update!());
        let sql = text!(
            "UPDATE postrider_operation SET state = $1, token = NULL, lock_owner = NULL, lock_until = NULL, updated_at = ",
            now!(),
            ", finished_at = CASE WHEN $2 THEN ",
            now!(),
            " END WHERE id = $3 AND state IN ($4, $5)"
        );
        retrying(|| async {
            let query = sqlx::query(sql).bind(to.as_str()).bind(to == OperationState::Cancelled);
            let mut tx = self.write().await?;
            let before: Option<String> = sqlx::query_scalar(lock).bind(id).fetch_optional(&mut *tx).await?;
            let done = query.bind(id).bind(from).bind(or_from).execute(&mut *tx).await?;
            match before {
                Some(before) if done.rows_affected() == 1 => commit(tx, &Change::steered(&before, to)).await,
                _ => Ok(tx.rollback().await?),
            }
        })
        .await?;
        self.operation(id).await
    }

    async fn claim_operation(&self, owner: &str, lease: Duration) -> Result<Option<(Operation, Token)>> {
        // Usually there is none, and this read takes no lock.
        let free = text!(
            "SELECT 1 FROM postrider_operation WHERE state = 'RUNNING' AND (token IS NULL OR lock_until <= ",
            now!(),
            ") LIMIT 1"
        );
        if sqlx::query(free).fetch_optional(self.reader()).await?.is_none() {
            return Ok(None);
        }
        let lock = text!(
            "SELECT id FROM postrider_operation WHERE state = 'RUNNING' AND (token IS NULL OR lock_until <= ",
            now!(),
            ") ORDER BY number LIMIT 1",
            skip_locked!()
        );
        let take = text!(
            "UPDATE postrider_operation SET token = $1, lock_owner = $2, lock_until = ",
            later!("$3"),
            " WHERE id = $4"
        );
        let token = Token::fresh();
        retrying(|| async {
            let mut tx = self.write().await?;
            let id: Option<String> = sqlx::query_scalar(lock).fetch_optional(&mut *tx).await?;
            let Some(id) = id else {
                tx.rollback().await?;
                return Ok(None);
            };
            let query = sqlx::query(take).bind(token.0).bind(owner).bind(millis(lease)).bind(&id);
            query.execute(&mut *tx).await?;
            let operation = find(&mut tx, &id).await?;
            tx.commit().await?;
            Ok(Some((operation, token)))
        })
        .await
    }

    async fn advance_operation(&self, advance: &Advance<'_>) -> Result<Option<Operation>> {
        let subscriptions = self.subscriptions(None).await?;
        let Some(known) = self.operation(advance.id).await? else { return Ok(None) };
        let wanted = &known.request;
        let request =
            Request { consumer: wanted.consumer.as_deref(), rules: &wanted.rules, subscriptions: &subscriptions };
        retrying(|| self.advance(advance, &request)).await
    }

    async fn release_operation(&self, id: &str, token: Token) -> Result<bool> {
        let sql = text!(
            "UPDATE postrider_operation SET token = NULL, lock_owner = NULL, lock_until = NULL WHERE id = $1 AND token = $2"
        );
        retrying(|| async {
            Ok(sqlx::query(sql).bind(id).bind(token.0).execute(self.writer()?).await?.rows_affected() == 1)
        })
        .await
    }
}

impl SqlStore {
    async fn advance(&self, advance: &Advance<'_>, request: &Request<'_>) -> Result<Option<Operation>> {
        let mut tx = self.write().await?;
        let lock = sqlx::query(text!(
            "SELECT 1 FROM postrider_operation WHERE id = $1 AND token = $2 AND state = 'RUNNING'",
            for_update!()
        ));
        if lock.bind(advance.id).bind(advance.token.0).fetch_optional(&mut *tx).await?.is_none() {
            tx.rollback().await?;
            return Ok(None);
        }
        let answers = redrive_many(&mut tx, advance.events, request).await?;
        let tally = Tally::of(advance.events.len(), &answers);
        let done = advance.next.is_none();
        sqlx::query(text!(
            "UPDATE postrider_operation SET done = done + $1, failed = failed + $2, skipped = skipped + $3, position = $4, \
             state = CASE WHEN $5 THEN 'DONE' ELSE state END, finished_at = CASE WHEN $6 THEN ",
            now!(),
            " END, updated_at = ",
            now!(),
            ", lock_until = ",
            later!("$7"),
            " WHERE id = $8"
        ))
        .bind(tally.done)
        .bind(tally.failed)
        .bind(tally.skipped)
        .bind(advance.next.map(|next| next.0))
        .bind(done)
        .bind(done)
        .bind(millis(advance.lease))
        .bind(advance.id)
        .execute(&mut *tx)
        .await?;
        let operation = find(&mut tx, advance.id).await?;
        tx.commit().await?;
        Ok(Some(operation))
    }
}

const FIND: &str = text!(
    "SELECT id, state, filter, options, total, done, failed, skipped, position, lock_owner, created_at, updated_at, \
     finished_at FROM postrider_operation WHERE id = $1"
);

async fn find(conn: &mut Conn, id: &str) -> Result<Operation> {
    let row: OperationRow = sqlx::query_as(FIND).bind(id).fetch_one(conn).await?;
    row.operation()
}

/// The stored form of a request without its filter.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    consumer: Option<String>,
    rate_per_second: Option<u32>,
    rules: RedriveRules,
    reason: Option<String>,
    requested_by: Option<String>,
}

#[derive(sqlx::FromRow)]
struct OperationRow {
    id: String,
    state: String,
    filter: String,
    options: String,
    total: Option<i64>,
    done: i64,
    failed: i64,
    skipped: i64,
    position: Option<i64>,
    lock_owner: Option<String>,
    created_at: Time,
    updated_at: Time,
    finished_at: Option<Time>,
}

impl OperationRow {
    fn operation(self) -> Result<Operation> {
        let corrupt = |e: serde_json::Error| Error::Store(e.into());
        let options: Options = serde_json::from_str(&self.options).map_err(corrupt)?;
        Ok(Operation {
            request: NewOperation {
                id: self.id,
                filter: serde_json::from_str(&self.filter).map_err(corrupt)?,
                consumer: options.consumer,
                rate_per_second: options.rate_per_second,
                rules: options.rules,
                reason: options.reason,
                requested_by: options.requested_by,
                total: self.total.map(i64::unsigned_abs),
            },
            state: self.state.parse()?,
            done: self.done.unsigned_abs(),
            failed: self.failed.unsigned_abs(),
            skipped: self.skipped.unsigned_abs(),
            position: self.position.map(Cursor),
            owner: self.lock_owner,
            created_at: time(self.created_at),
            updated_at: time(self.updated_at),
            finished_at: self.finished_at.map(time),
        })
    }
}
