//! Bulk operations and the leases under which they are worked on.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::audit::commit;
use super::redrives::{now, redrive_many};
use super::{Conn, SqlStore, Time, stored, time};
use crate::error::{Error, Result};
use crate::redrive::RedriveRules;
use crate::store::audit::{Change, explain};
use crate::store::batch::millis;
use crate::store::decide::{LOOKED_AT, Request, Watched, request};
use crate::store::sql::{is_duplicate, json, retrying};
use crate::store::{
    Advance, Cursor, ItemList, ItemOutcome, NewOperation, Operation, OperationItem, OperationRuns, OperationState,
    Progress, Ramp, Steer, Subscriptions, Token,
};

/// What no worker holds and has something to do. An operation of a program that knows no `look_at` has none.
macro_rules! is_due {
    () => {
        concat!(
            "(look_at <= ",
            now!(),
            " OR look_at IS NULL AND state = 'RUNNING') AND (token IS NULL OR lock_until <= ",
            now!(),
            ")"
        )
    };
}

macro_rules! columns {
    () => {
        "id, number, state, filter, options, total, done, failed, skipped, position, progress, gate_since, lock_owner, \
         created_at, updated_at, finished_at"
    };
}

#[async_trait]
impl OperationRuns for SqlStore {
    async fn create_operation(&self, new: &NewOperation) -> Result<Operation> {
        new.check()?;
        let (filter, options) = (json(&new.filter)?, json(&Options::of(new))?);
        let progress = json(&Progress::new(new.ramp.as_ref()))?;
        let total = new.total.map(|total| i64::try_from(total).unwrap_or(i64::MAX));
        let sql = text!(
            "INSERT INTO postrider_operation (id, state, filter, options, total, progress, position, created_at, updated_at, look_at) \
             VALUES ($1, 'RUNNING', $2, $3, $4, $5, 1 + coalesce((SELECT max(seq) FROM postrider_event), 0), ",
            now!(),
            ", ",
            now!(),
            ", ",
            now!(),
            ")"
        );
        retrying(|| async {
            let query = sqlx::query(sql).bind(&new.id).bind(&filter).bind(&options).bind(total).bind(&progress);
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

    async fn operations(&self, before: Option<i64>, limit: u32) -> Result<Vec<Operation>> {
        let query = sqlx::query_as(text!(
            "SELECT ",
            columns!(),
            " FROM postrider_operation WHERE number < $1 ORDER BY number DESC LIMIT $2"
        ));
        let query = query.bind(before.unwrap_or(i64::MAX)).bind(i64::from(limit));
        let rows: Vec<OperationRow> = query.fetch_all(self.reader()).await?;
        rows.into_iter().map(OperationRow::operation).collect()
    }

    async fn operation_items(&self, list: &ItemList) -> Result<Vec<OperationItem>> {
        crate::limits::page(list.limit)?;
        let query = match list.outcome {
            None => sqlx::query_as(text!(
                "SELECT i.event_seq, i.event_id, i.step, i.outcome, i.rule FROM postrider_operation_item i \
                 WHERE i.operation = (SELECT o.number FROM postrider_operation o WHERE o.id = $1) \
                 AND i.event_seq > $2 ORDER BY i.event_seq LIMIT $3"
            ))
            .bind(&list.operation),
            Some(outcome) => sqlx::query_as(text!(
                "SELECT i.event_seq, i.event_id, i.step, i.outcome, i.rule FROM postrider_operation_item i",
                by_outcome!(),
                " WHERE i.operation = (SELECT o.number FROM postrider_operation o WHERE o.id = $1) \
                 AND i.outcome = $2 AND i.event_seq > $3 ORDER BY i.event_seq LIMIT $4"
            ))
            .bind(&list.operation)
            .bind(outcome.code()),
        };
        let rows: Vec<(i64, String, i32, i16, Option<String>)> =
            query.bind(list.after).bind(i64::from(list.limit)).fetch_all(self.reader()).await?;
        let item = |(sequence, event_id, step, outcome, rule): (i64, String, i32, i16, Option<String>)| {
            let outcome = ItemOutcome::of(outcome)?;
            Ok(OperationItem { sequence, event_id, step: step.unsigned_abs(), outcome, rule })
        };
        rows.into_iter().map(item).collect()
    }

    async fn steer_operation(&self, id: &str, steer: Steer) -> Result<Option<Operation>> {
        retrying(|| async {
            let mut tx = self.write().await?;
            let Some(mut operation) = lock(&mut tx, id).await? else {
                tx.rollback().await?;
                return Ok(());
            };
            let (before, now) = (operation.state, now(&mut tx).await?);
            if !operation.steer(steer, now) {
                return Ok(tx.rollback().await?);
            }
            operation.owner = None;
            write(&mut tx, &operation, now).await?;
            // Whoever steers it sees the results at once.
            let pause = operation.pause(0, now).map(|_| Duration::ZERO);
            set_free(&mut tx, &operation, pause, now).await?;
            commit(tx, &Change::steered(before.as_str(), operation.state)).await
        })
        .await?;
        self.operation(id).await
    }

    async fn claim_operation(&self, owner: &str, lease: Duration) -> Result<Option<(Operation, Token)>> {
        // Usually there is none, and this read takes no lock.
        let free = text!("SELECT 1 FROM postrider_operation WHERE ", is_due!(), " LIMIT 1");
        if sqlx::query(free).fetch_optional(self.reader()).await?.is_none() {
            return Ok(None);
        }
        let lock = text!(
            "SELECT id FROM postrider_operation WHERE ",
            is_due!(),
            " ORDER BY look_at, number LIMIT 1",
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
        let request = request(&known.request, &subscriptions);
        retrying(|| self.advance(advance, &request)).await
    }

    async fn release_operation(&self, id: &str, token: Token, pause: Duration) -> Result<bool> {
        retrying(|| async {
            let mut tx = self.write().await?;
            let held = text!("SELECT 1 FROM postrider_operation WHERE id = $1 AND token = $2", for_update!());
            if sqlx::query(held).bind(id).bind(token.0).fetch_optional(&mut *tx).await?.is_none() {
                tx.rollback().await?;
                return Ok(false);
            }
            let (operation, now) = (find(&mut tx, id).await?, now(&mut tx).await?);
            let pause = operation.pause(0, now).map(|_| pause);
            set_free(&mut tx, &operation, pause, now).await?;
            tx.commit().await?;
            Ok(true)
        })
        .await
    }
}

impl SqlStore {
    async fn advance(&self, advance: &Advance<'_>, request: &Request<'_>) -> Result<Option<Operation>> {
        let mut tx = self.write().await?;
        let held = text!("SELECT 1 FROM postrider_operation WHERE id = $1 AND token = $2", for_update!());
        if sqlx::query(held).bind(advance.id).bind(advance.token.0).fetch_optional(&mut *tx).await?.is_none() {
            tx.rollback().await?;
            return Ok(None);
        }
        let (mut operation, now) = (find(&mut tx, advance.id).await?, now(&mut tx).await?);
        let before = operation.state;
        // A page that begins elsewhere was read before another worker went on.
        if let Some(page) = advance.page.as_ref().filter(|page| page.follows(&operation)) {
            let planned: Vec<_> = page.events.iter().map(|(seq, id)| ItemRow::planned(*seq, id)).collect();
            write_items(&mut tx, operation.number, &planned).await?;
            operation.plan(page);
        }
        if operation.wants_look(now) {
            look(&mut tx, &mut operation, now).await?;
            operation.turn(now);
        }
        let allowed = operation.allowance(advance.batch);
        if allowed > 0 {
            let planned = planned(&mut tx, &operation, allowed).await?;
            let seqs: Vec<i64> = planned.iter().map(|(seq, _)| *seq).collect();
            let answers = redrive_many(&mut tx, &seqs, request).await?;
            let noted = operation.redriven(&seqs, &answers);
            let mut rows = Vec::with_capacity(noted.len());
            for (noted, (_, id)) in noted.iter().zip(&planned) {
                let watched = noted.watched.as_ref().map(json).transpose()?;
                let (step, outcome, rule) = (noted.step, noted.outcome.code(), noted.rule);
                rows.push(ItemRow { seq: noted.sequence, id, step, outcome, rule, watched });
            }
            write_items(&mut tx, operation.number, &rows).await?;
        }
        operation.turn(now);
        operation.updated_at = now;
        write(&mut tx, &operation, now).await?;
        let lease = text!("UPDATE postrider_operation SET lock_until = ", later!("$1"), " WHERE number = $2");
        sqlx::query(lease).bind(millis(advance.lease)).bind(operation.number).execute(&mut *tx).await?;
        let operation = find(&mut tx, advance.id).await?;
        match &operation.progress.stopped_because {
            Some(why) if before == OperationState::Running => {
                explain(Some(why), None);
                commit(tx, &Change::steered(before.as_str(), operation.state)).await?;
            }
            _ => tx.commit().await?,
        }
        Ok(Some(operation))
    }
}

const FIND: &str = text!("SELECT ", columns!(), " FROM postrider_operation WHERE id = $1");

async fn find(conn: &mut Conn, id: &str) -> Result<Operation> {
    let row: OperationRow = sqlx::query_as(FIND).bind(id).fetch_one(conn).await?;
    row.operation()
}

async fn lock(conn: &mut Conn, id: &str) -> Result<Option<Operation>> {
    let sql = text!("SELECT ", columns!(), " FROM postrider_operation WHERE id = $1", for_update!());
    let row: Option<OperationRow> = sqlx::query_as(sql).bind(id).fetch_optional(conn).await?;
    row.map(OperationRow::operation).transpose()
}

/// Writes everything that changes, but not who holds it.
async fn write(conn: &mut Conn, operation: &Operation, now: OffsetDateTime) -> Result<()> {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    sqlx::query(text!(
        "UPDATE postrider_operation SET state = $1, total = $2, done = $3, failed = $4, skipped = $5, position = $6, \
         progress = $7, gate_since = $8, updated_at = $9, finished_at = $10 WHERE number = $11"
    ))
    .bind(operation.state.as_str())
    .bind(operation.request.total.map(number))
    .bind(number(operation.done))
    .bind(number(operation.failed))
    .bind(number(operation.skipped))
    .bind(operation.position.map(|next| next.0))
    .bind(json(&operation.progress)?)
    .bind(operation.gate_since.map(stored))
    .bind(stored(now))
    .bind(operation.finished_at.map(stored))
    .bind(operation.number)
    .execute(conn)
    .await?;
    Ok(())
}

/// No worker holds it any more, and none looks at it before the pause has passed.
async fn set_free(conn: &mut Conn, operation: &Operation, pause: Option<Duration>, now: OffsetDateTime) -> Result<()> {
    let sql = text!(
        "UPDATE postrider_operation SET token = NULL, lock_owner = NULL, lock_until = NULL, look_at = $1 WHERE number = $2"
    );
    let look_at = pause.map(|pause| stored(now + pause));
    sqlx::query(sql).bind(look_at).bind(operation.number).execute(conn).await?;
    Ok(())
}

/// A row of the parameter of `write_items.sql`.
#[derive(Serialize)]
struct ItemRow<'a> {
    seq: i64,
    id: &'a str,
    step: u32,
    outcome: i16,
    rule: Option<&'a str>,
    watched: Option<String>,
}

impl<'a> ItemRow<'a> {
    fn planned(seq: i64, id: &'a str) -> Self {
        Self { seq, id, step: 0, outcome: ItemOutcome::Planned.code(), rule: None, watched: None }
    }
}

async fn write_items(conn: &mut Conn, operation: i64, rows: &[ItemRow<'_>]) -> Result<()> {
    if !rows.is_empty() {
        sqlx::query(sql!("operations/write_items")).bind(operation).bind(json(rows)?).execute(conn).await?;
    }
    Ok(())
}

/// The next events of the plan.
async fn planned(conn: &mut Conn, operation: &Operation, limit: u32) -> Result<Vec<(i64, String)>> {
    let sql = if operation.request.oldest_first {
        text!(
            "SELECT event_seq, event_id FROM postrider_operation_item",
            by_outcome!(),
            " WHERE operation = $1 AND outcome = $2 \
             ORDER BY event_seq LIMIT $3"
        )
    } else {
        text!(
            "SELECT event_seq, event_id FROM postrider_operation_item",
            by_outcome!(),
            " WHERE operation = $1 AND outcome = $2 \
             ORDER BY event_seq DESC LIMIT $3"
        )
    };
    let query = sqlx::query_as(sql).bind(operation.number).bind(ItemOutcome::Planned.code()).bind(i64::from(limit));
    Ok(query.fetch_all(conn).await?)
}

/// Reads what came of some of the events without a result.
async fn look(conn: &mut Conn, operation: &mut Operation, now: OffsetDateTime) -> Result<()> {
    let sql = text!(
        "SELECT event_seq, event_id, step, watched FROM postrider_operation_item",
        by_outcome!(),
        " WHERE operation = $1 AND outcome = $2 AND event_seq > $3 ORDER BY event_seq LIMIT $4"
    );
    let query = sqlx::query_as(sql).bind(operation.number).bind(ItemOutcome::Open.code());
    let query = query.bind(operation.progress.looked_to).bind(i64::from(LOOKED_AT));
    let open: Vec<(i64, String, i32, Option<String>)> = query.fetch_all(&mut *conn).await?;
    let seqs: Vec<i64> = open.iter().map(|(seq, ..)| *seq).collect();
    let records = super::records::records(conn, &seqs).await?;
    let (mut rows, mut seen) = (Vec::new(), Vec::new());
    for (seq, id, step, watched) in &open {
        let Some(record) = records.iter().find(|record| record.sequence == *seq) else { continue };
        let text = watched.as_deref().unwrap_or("{}");
        let outcome = serde_json::from_str::<Watched>(text).map_err(|e| Error::Store(e.into()))?.outcome(record);
        let step = step.unsigned_abs();
        if outcome != ItemOutcome::Open {
            rows.push(ItemRow { seq: *seq, id, step, outcome: outcome.code(), rule: None, watched: watched.clone() });
        }
        seen.push((step, outcome));
    }
    write_items(conn, operation.number, &rows).await?;
    let last = seqs.last().copied().filter(|_| seqs.len() == LOOKED_AT as usize);
    operation.observe(&seen, last, now);
    Ok(())
}

/// The stored form of a request without its filter.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    consumer: Option<String>,
    #[serde(default)]
    only_failed: bool,
    rate_per_second: Option<u32>,
    ramp: Option<Ramp>,
    #[serde(default)]
    oldest_first: bool,
    rules: RedriveRules,
    reason: Option<String>,
    requested_by: Option<String>,
    fingerprint: Option<String>,
}

impl Options {
    fn of(new: &NewOperation) -> Self {
        Self {
            consumer: new.consumer.clone(),
            only_failed: new.only_failed,
            rate_per_second: new.rate_per_second,
            ramp: new.ramp.clone(),
            oldest_first: new.oldest_first,
            rules: new.rules,
            reason: new.reason.clone(),
            requested_by: new.requested_by.clone(),
            fingerprint: new.fingerprint.clone(),
        }
    }
}

#[derive(sqlx::FromRow)]
struct OperationRow {
    id: String,
    number: i64,
    state: String,
    filter: String,
    options: String,
    total: Option<i64>,
    done: i64,
    failed: i64,
    skipped: i64,
    position: Option<i64>,
    progress: Option<String>,
    gate_since: Option<Time>,
    lock_owner: Option<String>,
    created_at: Time,
    updated_at: Time,
    finished_at: Option<Time>,
}

impl OperationRow {
    fn operation(self) -> Result<Operation> {
        let corrupt = |e: serde_json::Error| Error::Store(e.into());
        let options: Options = serde_json::from_str(&self.options).map_err(corrupt)?;
        let progress = match &self.progress {
            Some(progress) => serde_json::from_str(progress).map_err(corrupt)?,
            // Of a program that knows no plans: what it has done was not planned.
            None => {
                Progress { planned: (self.done + self.failed + self.skipped).unsigned_abs(), ..Progress::new(None) }
            }
        };
        Ok(Operation {
            request: NewOperation {
                id: self.id,
                filter: serde_json::from_str(&self.filter).map_err(corrupt)?,
                consumer: options.consumer,
                only_failed: options.only_failed,
                rate_per_second: options.rate_per_second,
                ramp: options.ramp,
                oldest_first: options.oldest_first,
                rules: options.rules,
                reason: options.reason,
                requested_by: options.requested_by,
                total: self.total.map(i64::unsigned_abs),
                fingerprint: options.fingerprint,
            },
            number: self.number,
            state: self.state.parse()?,
            done: self.done.unsigned_abs(),
            failed: self.failed.unsigned_abs(),
            skipped: self.skipped.unsigned_abs(),
            position: self.position.map(Cursor),
            progress,
            gate_since: self.gate_since.map(time),
            owner: self.lock_owner,
            created_at: time(self.created_at),
            updated_at: time(self.updated_at),
            finished_at: self.finished_at.map(time),
        })
    }
}
