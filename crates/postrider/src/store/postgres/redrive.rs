//! Redrive and expiry, by rule: decided on the rows, locked, and written with the decision.

use sqlx::postgres::PgConnection;
use time::OffsetDateTime;

use super::{PostgresStore, own, rollup};
use crate::error::Result;
use crate::redrive::{RedriveRules, Refusal};
use crate::status::EventStatus;
use crate::store::redrive::{Ask, Plan};
use crate::store::{Found, Store};

pub(super) async fn redrive_event(
    store: &PostgresStore,
    event_id: &str,
    consumer: Option<&str>,
    rules: &RedriveRules,
) -> Result<std::result::Result<Found, Refusal>> {
    let subscriptions = store.subscriptions(None).await?;
    let mut tx = store.work.begin().await.map_err(own)?;
    let seq: Option<i64> =
        sqlx::query_scalar(sql!("redrive_seq")).bind(event_id).fetch_optional(&mut *tx).await.map_err(own)?;
    let Some(seq) = seq else { return Ok(Err(Refusal::UnknownEvent)) };
    let ask = Ask { consumer, rules, subscriptions: &subscriptions };
    let answers = redrive_many(&mut tx, &[seq], &ask).await?;
    if let Some((_, Err(refusal))) = answers.into_iter().next() {
        // Now, not when the session is looked at next: a claim would pass over what is locked.
        tx.rollback().await.map_err(own)?;
        return Ok(Err(refusal));
    }
    let record = rollup::records(&mut tx, &[seq]).await?.pop();
    tx.commit().await.map_err(own)?;
    Ok(record.ok_or(Refusal::UnknownEvent))
}

/// What became of each event that is still there.
pub(super) async fn redrive_many(
    conn: &mut PgConnection,
    seqs: &[i64],
    ask: &Ask<'_>,
) -> Result<Vec<(i64, std::result::Result<(), Refusal>)>> {
    let records = locked(conn, seqs).await?;
    let now: OffsetDateTime = sqlx::query_scalar("SELECT now()").fetch_one(&mut *conn).await.map_err(own)?;
    let plan = Plan::of(&records, ask, now)?;
    if plan.seqs.is_empty() {
        return Ok(plan.answers);
    }
    sqlx::query(sql!("note_redrives")).bind(&plan.seqs).execute(&mut *conn).await.map_err(own)?;
    if let Some(expected) = &plan.expected {
        sqlx::query(sql!("redrive_expect")).bind(expected).execute(&mut *conn).await.map_err(own)?;
    }
    sqlx::query(sql!("redrive_many")).bind(&plan.deliveries).execute(&mut *conn).await.map_err(own)?;
    for (lane, key, seq) in &plan.keys {
        sqlx::query(sql!("free_followers")).bind(lane).bind(key).bind(seq).execute(&mut *conn).await.map_err(own)?;
    }
    sqlx::query(sql!("mark")).bind(&plan.seqs).execute(conn).await.map_err(own)?;
    Ok(plan.answers)
}

pub(super) async fn expire(store: &PostgresStore, event_id: &str) -> Result<std::result::Result<Found, Refusal>> {
    let mut tx = store.work.begin().await.map_err(own)?;
    let seq: Option<i64> =
        sqlx::query_scalar(sql!("redrive_seq")).bind(event_id).fetch_optional(&mut *tx).await.map_err(own)?;
    let Some(seq) = seq else { return Ok(Err(Refusal::UnknownEvent)) };
    let Some(record) = locked(&mut tx, &[seq]).await?.pop() else { return Ok(Err(Refusal::UnknownEvent)) };
    let status = record.standing().status;
    if matches!(status, EventStatus::Consumed | EventStatus::Expired) {
        tx.rollback().await.map_err(own)?;
        return Ok(if status == EventStatus::Expired { Ok(record) } else { Err(Refusal::Consumed) });
    }
    for sql in [sql!("expire"), sql!("expire_deliveries"), sql!("expire_routing")] {
        sqlx::query(sql).bind(seq).execute(&mut *tx).await.map_err(own)?;
    }
    if let Some(key) = &record.envelope.key {
        for one in &record.deliveries {
            let query = sqlx::query(sql!("free_followers")).bind(&one.lane).bind(key).bind(seq);
            query.execute(&mut *tx).await.map_err(own)?;
        }
    }
    sqlx::query(sql!("mark")).bind(&[seq][..]).execute(&mut *tx).await.map_err(own)?;
    let record = rollup::records(&mut tx, &[seq]).await?.pop();
    tx.commit().await.map_err(own)?;
    Ok(record.ok_or(Refusal::UnknownEvent))
}

/// Events with everything that a decision depends on, until the transaction ends.
async fn locked(conn: &mut PgConnection, seqs: &[i64]) -> Result<Vec<Found>> {
    for sql in [sql!("redrive_events_lock"), sql!("redrive_deliveries_lock"), sql!("redrive_expected_lock")] {
        sqlx::query(sql).bind(seqs).execute(&mut *conn).await.map_err(own)?;
    }
    rollup::records(conn, seqs).await
}
