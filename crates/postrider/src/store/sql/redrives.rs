//! Redrive, expiry and discard: the rows are locked and read, [`decide`](crate::store::decide) decides, and the decision is written in
//! the same transaction.

use async_trait::async_trait;

use super::audit::commit;
use super::records::records;
use super::{Conn, SqlStore, Time, numbers, time};
use crate::entry::DISCARDED;
use crate::error::{Error, Result};
use crate::redrive::{RedriveRules, Refusal, discardable};
use crate::status::EventStatus;
use crate::store::audit::Change;
use crate::store::batch;
use crate::store::decide::{Plan, Request, Watched, redrive_lane};
use crate::store::redrive::discard_reason;
use crate::store::sql::retrying;
use crate::store::{Record, Redriven, Redrives, Subscriptions, Wakeups};

#[async_trait]
impl Redrives for SqlStore {
    async fn redrive(&self, event_id: &str, lane: &str, target: Option<&str>) -> Result<Redriven> {
        retrying(|| self.redrive_once(event_id, lane, target)).await
    }

    async fn redrive_event(&self, event_id: &str, consumer: Option<&str>, rules: &RedriveRules) -> Result<Record> {
        let subscriptions = self.subscriptions(None).await?;
        let request = Request { consumer, only_failed: None, rules, subscriptions: &subscriptions };
        let found = retrying(|| self.redrive_event_once(event_id, &request)).await?;
        // The relays of this process need not wait for their next look.
        self.wake().poke(event_id, &found.envelope.topic);
        Ok(found)
    }

    async fn expire(&self, event_id: &str) -> Result<Record> {
        retrying(|| self.expire_once(event_id)).await
    }

    async fn discard(&self, event_id: &str, consumer: &str, reason: &str) -> Result<Record> {
        let reason = discard_reason(reason)?;
        retrying(|| self.discard_once(event_id, consumer, &reason)).await
    }
}

impl SqlStore {
    async fn redrive_once(&self, event_id: &str, lane: &str, target: Option<&str>) -> Result<Redriven> {
        let mut tx = self.write().await?;
        let Some(record) = lock_one(&mut tx, event_id).await? else {
            tx.rollback().await?;
            return Ok(Redriven::UnknownEvent);
        };
        let (redriven, plan) = redrive_lane(&record, lane, target, now(&mut tx).await?);
        write(&mut tx, &plan).await?;
        tx.commit().await?;
        if matches!(redriven, Redriven::Due | Redriven::Made) {
            self.wake().poke(event_id, &record.envelope.topic);
        }
        Ok(redriven)
    }

    async fn redrive_event_once(&self, event_id: &str, request: &Request<'_>) -> Result<Record> {
        let mut tx = self.write().await?;
        let (answer, before) = match find_seq(&mut tx, event_id).await? {
            Some(seq) => {
                let before = lock(&mut tx, &[seq]).await?.pop();
                (redrive_many(&mut tx, &[seq], request).await?.pop(), before)
            }
            None => (None, None),
        };
        let seq = match answer {
            Some((seq, Ok(_))) => seq,
            Some((_, Err(refusal))) => return refuse(tx, refusal).await,
            None => return refuse(tx, Refusal::UnknownEvent).await,
        };
        let after = records(&mut tx, &[seq]).await?.pop();
        commit_after(tx, before, after).await
    }

    async fn expire_once(&self, event_id: &str) -> Result<Record> {
        let mut tx = self.write().await?;
        let Some(record) = lock_one(&mut tx, event_id).await? else {
            return refuse(tx, Refusal::UnknownEvent).await;
        };
        match record.standing().status {
            EventStatus::Consumed => return refuse(tx, Refusal::Consumed).await,
            EventStatus::Expired => {
                tx.rollback().await?;
                return Ok(record);
            }
            _ => {}
        }
        let seq = record.sequence;
        for sql in [
            sql!("redrives/expire"),
            text!("DELETE FROM postrider_delivery WHERE event_seq = $1"),
            text!("UPDATE postrider_event SET waits_for = NULL WHERE seq = $1 AND waits_for IS NOT NULL"),
        ] {
            sqlx::query(sql).bind(seq).execute(&mut *tx).await?;
        }
        if let Some(key) = &record.envelope.key {
            for delivery in &record.deliveries {
                free_followers(&mut tx, &delivery.lane, key, seq).await?;
            }
        }
        mark(&mut tx, &[seq]).await?;
        let after = records(&mut tx, &[seq]).await?.pop();
        commit_after(tx, Some(record), after).await
    }

    async fn discard_once(&self, event_id: &str, consumer: &str, reason: &str) -> Result<Record> {
        let mut tx = self.write().await?;
        let Some(record) = lock_one(&mut tx, event_id).await? else {
            return refuse(tx, Refusal::UnknownEvent).await;
        };
        let (seq, delivery) = match discardable(&record, consumer) {
            Ok(delivery) => (record.sequence, delivery),
            Err(refusal) => return refuse(tx, refusal).await,
        };
        let remove = text!("DELETE FROM postrider_delivery WHERE event_seq = $1 AND lane = $2 AND target = $3");
        let target = delivery.target.as_deref().unwrap_or_default();
        sqlx::query(remove).bind(seq).bind(&delivery.lane).bind(target).execute(&mut *tx).await?;
        append_end(&mut tx, seq, consumer, reason, DISCARDED).await?;
        if let Some(key) = &record.envelope.key {
            free_followers(&mut tx, &delivery.lane, key, seq).await?;
        }
        mark(&mut tx, &[seq]).await?;
        let after = records(&mut tx, &[seq]).await?.pop();
        commit_after(tx, Some(record), after).await
    }
}

/// Commits a change of an event with its audit record, and returns the event.
async fn commit_after(tx: super::StoreTx, before: Option<Record>, after: Option<Record>) -> Result<Record> {
    let (Some(before), Some(after)) = (before, after) else { return refuse(tx, Refusal::UnknownEvent).await };
    commit(tx, &Change::event(&before, &after)).await?;
    Ok(after)
}

/// Appends the last, failed attempt of a consumer.
pub(super) async fn append_end(conn: &mut Conn, seq: i64, consumer: &str, error: &str, code: &str) -> Result<()> {
    let append = text!(
        "INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, will_retry, consumed_at, error, code) \
         SELECT $1, $2, 1 + coalesce(max(c.attempt), 0), false, false, ",
        now!(),
        ", $3, $4 FROM postrider_consumption c WHERE c.event_seq = $5 AND c.consumer = $6"
    );
    let append = sqlx::query(append).bind(seq).bind(consumer).bind(error).bind(code).bind(seq).bind(consumer);
    append.execute(conn).await?;
    Ok(())
}

/// Redrives events by rule. Returns an answer for each event that still exists.
pub(super) async fn redrive_many(
    conn: &mut Conn,
    seqs: &[i64],
    request: &Request<'_>,
) -> Result<Vec<(i64, std::result::Result<Watched, Refusal>)>> {
    let records = lock(conn, seqs).await?;
    let plan = Plan::of(&records, request, now(conn).await?);
    write(conn, &plan).await?;
    Ok(plan.answers)
}

async fn write(conn: &mut Conn, plan: &Plan) -> Result<()> {
    if plan.seqs.is_empty() {
        return Ok(());
    }
    // Before the deliveries: they must be due no earlier than the time of the redrive.
    sqlx::query(sql!("redrives/note_redrives")).bind(numbers(&plan.seqs)?).execute(&mut *conn).await?;
    if !plan.expected.is_empty() {
        sqlx::query(sql!("events/expect")).bind(batch::expected(&plan.expected)?).execute(&mut *conn).await?;
    }
    sqlx::query(sql!("redrives/redrive_many")).bind(batch::due(&plan.deliveries)?).execute(&mut *conn).await?;
    for (lane, key, seq) in &plan.keys {
        free_followers(conn, lane, key, *seq).await?;
    }
    mark(conn, &plan.seqs).await
}

pub(super) async fn free_followers(conn: &mut Conn, lane: &str, key: &str, seq: i64) -> Result<()> {
    sqlx::query(sql!("redrives/free_followers")).bind(lane).bind(key).bind(seq).execute(conn).await?;
    Ok(())
}

/// Marks events whose status may have changed, for the roll-up.
pub(in super::super) async fn mark(conn: &mut Conn, seqs: &[i64]) -> Result<()> {
    let query = sqlx::query(text!("INSERT INTO postrider_mark (event_seq) SELECT i.seq FROM ", seqs!("$1")));
    query.bind(numbers(seqs)?).execute(conn).await?;
    Ok(())
}

/// Ends the transaction before the answer: a claim skips rows that are still locked.
async fn refuse(tx: super::StoreTx, refusal: Refusal) -> Result<Record> {
    tx.rollback().await?;
    Err(Error::Refused(refusal))
}

pub(super) async fn now(conn: &mut Conn) -> Result<time::OffsetDateTime> {
    let now: Time = sqlx::query_scalar(text!("SELECT ", now!())).fetch_one(conn).await?;
    Ok(time(now))
}

pub(in super::super) async fn find_seq(conn: &mut Conn, event_id: &str) -> Result<Option<i64>> {
    let query = sqlx::query_scalar(text!("SELECT seq FROM postrider_event WHERE event_id = $1"));
    Ok(query.bind(event_id).fetch_optional(conn).await?)
}

async fn lock_one(conn: &mut Conn, event_id: &str) -> Result<Option<Record>> {
    match find_seq(conn, event_id).await? {
        Some(seq) => Ok(lock(conn, &[seq]).await?.pop()),
        None => Ok(None),
    }
}

/// Reads events with everything that a decision depends on. The rows are locked until the transaction ends.
pub(super) async fn lock(conn: &mut Conn, seqs: &[i64]) -> Result<Vec<Record>> {
    for sql in super::REDRIVE_LOCKS {
        sqlx::query(sql).bind(numbers(seqs)?).execute(&mut *conn).await?;
    }
    records(conn, seqs).await
}
