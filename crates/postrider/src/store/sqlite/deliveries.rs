//! Deliveries while they are worked on: claimed, and settled one way or the other.

use std::time::Duration;

use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::error::own;
use super::{SqliteStore, append_successes, json, mark, rows};
use crate::error::Result;
use crate::shard::{self, Shards};
use crate::store::batch::{self, millis};
use crate::store::{Buried, Claim, DeadHead, DeliveryId, Failed, History, Lease, Redriven, Token};

/// How many times its limit a keyed claim looks at, and at least how many rows: what waits behind others does not count.
const WINDOW_FACTOR: u32 = 4;
const WINDOW_FLOOR: u32 = 256;
/// How many windows in a row may hold nothing but deliveries that had to be parked: as many as 20,000 behind one dead
/// delivery fill at the usual limits. A claim that finds more gives the others a turn.
const PARKED_WINDOWS: u32 = 16;

pub(super) async fn claim(store: &SqliteStore, claim: &Claim) -> Result<Lease> {
    claim.check()?;
    let token = Token::fresh();
    let leased = sqlx::query(sql!("claim"))
        .bind(&claim.lane)
        .bind(shards(claim.shards))
        .bind(claim.limit)
        .bind(token.0)
        .bind(&claim.owner)
        .bind(millis(claim.lease))
        .execute(&store.writer)
        .await
        .map_err(own)?
        .rows_affected();
    if leased == 0 {
        return rows::lease(token, &[]);
    }
    // By a reader, so that the writer is free again.
    let fetch = sqlx::query(sql!("claim_fetch")).bind(&claim.lane).bind(token.0).bind(leased as i64);
    rows::lease(token, &fetch.fetch_all(&store.reader).await.map_err(own)?)
}

pub(super) async fn claim_keyed(store: &SqliteStore, claim: &Claim, dead_head: DeadHead) -> Result<Lease> {
    claim.check()?;
    let token = Token::fresh();
    let hold = dead_head == DeadHead::Hold;
    for _ in 0..PARKED_WINDOWS {
        let mut tx = store.write().await?;
        let (leased, parked) = claim_runs(&mut tx, claim, token, hold).await?;
        tx.commit().await.map_err(own)?;
        if !leased.is_empty() {
            let fetch = sqlx::query(sql!("claim_keyed_fetch")).bind(json(&leased)?).bind(token.0);
            return rows::lease(token, &fetch.fetch_all(&store.reader).await.map_err(own)?);
        }
        // What had to be parked was in front of what can be had: look again, now that it is out of the way.
        if parked == 0 {
            break;
        }
    }
    rows::lease(token, &[])
}

/// Leases runs and, where that did not fill the claim, parks what stands in the way. Answers with the ids of what was
/// leased, and how many were parked.
async fn claim_runs(tx: &mut SqliteConnection, claim: &Claim, token: Token, hold: bool) -> Result<(Vec<i64>, u64)> {
    let window = (claim.limit * WINDOW_FACTOR).max(WINDOW_FLOOR);
    if !hold {
        let query = sqlx::query(sql!("free_held")).bind(&claim.lane);
        query.execute(&mut *tx).await.map_err(own)?;
    }
    let leased = sqlx::query(sql!("claim_keyed"))
        .bind(&claim.lane)
        .bind(shards(claim.shards))
        .bind(claim.limit)
        .bind(token.0)
        .bind(&claim.owner)
        .bind(millis(claim.lease))
        .bind(hold)
        .bind(window)
        .fetch_all(&mut *tx)
        .await
        .map_err(own)?;
    let leased = leased.iter().map(rows::claimed).collect::<Result<Vec<_>>>()?;
    let held: Vec<_> = leased.iter().filter(|(_, held)| *held).map(|(id, _)| id).collect();
    if !held.is_empty() {
        let query = sqlx::query(sql!("unhold")).bind(json(&held)?);
        query.execute(&mut *tx).await.map_err(own)?;
    }
    let leased: Vec<_> = leased.into_iter().map(|(id, _)| id).collect();
    if leased.len() == claim.limit as usize {
        return Ok((leased, 0));
    }
    let parked = sqlx::query(sql!("park"))
        .bind(&claim.lane)
        .bind(shards(claim.shards))
        .bind(hold)
        .bind(window)
        .execute(&mut *tx)
        .await
        .map_err(own)?;
    Ok((leased, parked.rows_affected()))
}

pub(super) async fn extend(
    store: &SqliteStore,
    token: Token,
    deliveries: &[DeliveryId],
    lease: Duration,
) -> Result<Vec<DeliveryId>> {
    let query = sqlx::query(sql!("extend"));
    ids(query.bind(numbers(deliveries)?).bind(token.0).bind(millis(lease)).fetch_all(&store.writer).await)
}

pub(super) async fn settle(
    store: &SqliteStore,
    token: Token,
    deliveries: &[DeliveryId],
    history: History,
) -> Result<Vec<DeliveryId>> {
    let numbers = numbers(deliveries)?;
    if history == History::Omit && settle_all(store, token, &numbers, deliveries.len()).await? {
        return Ok(deliveries.to_vec());
    }
    let query = sqlx::query(sql!("settle")).bind(numbers).bind(token.0);
    if history == History::Omit {
        return ids(query.fetch_all(&store.writer).await);
    }
    let mut tx = store.write().await?;
    let settled = query.fetch_all(&mut *tx).await.map_err(own)?;
    let successes = settled.iter().map(rows::success).collect::<Result<Vec<_>>>()?;
    append_successes(&mut tx, &successes).await?.map_err(own)?;
    tx.commit().await.map_err(own)?;
    ids(Ok(settled))
}

/// Settles all of them, or none: then some have a key, or are not the caller's.
async fn settle_all(store: &SqliteStore, token: Token, numbers: &str, expected: usize) -> Result<bool> {
    let mut tx = store.write().await?;
    let query = sqlx::query(sql!("settle_all")).bind(numbers).bind(token.0);
    let settled = query.execute(&mut *tx).await.map_err(own)?.rows_affected();
    if settled != expected as u64 {
        tx.rollback().await.map_err(own)?;
        return Ok(false);
    }
    tx.commit().await.map_err(own)?;
    Ok(true)
}

pub(super) async fn retry(
    store: &SqliteStore,
    token: Token,
    failed: &[Failed],
    history: History,
) -> Result<Vec<DeliveryId>> {
    fail(store, sql!("retry"), token, batch::failures(failed)?, true, history).await
}

pub(super) async fn bury(
    store: &SqliteStore,
    token: Token,
    buried: &[Buried],
    history: History,
) -> Result<Vec<DeliveryId>> {
    fail(store, sql!("bury"), token, batch::burials(buried)?, false, history).await
}

/// Writes failures with `retry.sql` or `bury.sql`, after everything that needs to see the token on them.
async fn fail(
    store: &SqliteStore,
    sql: &'static str,
    token: Token,
    failures: String,
    will_retry: bool,
    history: History,
) -> Result<Vec<DeliveryId>> {
    let mut tx = store.write().await?;
    if history == History::Keep {
        sqlx::query(sql!("append_failures"))
            .bind(&failures)
            .bind(token.0)
            .bind(will_retry)
            .execute(&mut *tx)
            .await
            .map_err(own)?;
    }
    sqlx::query(sql!("release_followers")).bind(&failures).bind(token.0).execute(&mut *tx).await.map_err(own)?;
    let failed = sqlx::query(sql).bind(&failures).bind(token.0).fetch_all(&mut *tx).await;
    let failed = ids(failed)?;
    if history == History::Keep {
        let seqs: Vec<i64> = failed.iter().map(|id| id.sequence).collect();
        mark(&mut tx, &seqs).await?.map_err(own)?;
    }
    tx.commit().await.map_err(own)?;
    Ok(failed)
}

pub(super) async fn release(store: &SqliteStore, token: Token, deliveries: &[DeliveryId]) -> Result<Vec<DeliveryId>> {
    let query = sqlx::query(sql!("release"));
    ids(query.bind(numbers(deliveries)?).bind(token.0).fetch_all(&store.writer).await)
}

pub(super) async fn redrive(store: &SqliteStore, event_id: &str, lane: &str, target: &str) -> Result<Redriven> {
    let mut tx = store.write().await?;
    let event: Option<(i64, Option<String>, bool, bool)> = sqlx::query_as(sql!("redrive_lock"))
        .bind(event_id)
        .bind(lane)
        .bind(target)
        .fetch_optional(&mut *tx)
        .await
        .map_err(own)?;
    let Some((seq, key, expired, known)) = event else {
        return Ok(Redriven::UnknownEvent);
    };
    if expired {
        return Ok(Redriven::Expired);
    }
    sqlx::query(sql!("note_redrives")).bind(json(&[seq])?).execute(&mut *tx).await.map_err(own)?;
    let redriven = sqlx::query(sql!("redrive"))
        .bind(seq)
        .bind(lane)
        .bind(target)
        .bind(shard::shard_of(key.as_deref(), event_id))
        .fetch_optional(&mut *tx)
        .await
        .map_err(own)?;
    if redriven.is_none() {
        return Ok(Redriven::InProgress);
    }
    if let Some(key) = key {
        sqlx::query(sql!("free_followers")).bind(lane).bind(key).bind(seq).execute(&mut *tx).await.map_err(own)?;
    }
    mark(&mut tx, &[seq]).await?.map_err(own)?;
    tx.commit().await.map_err(own)?;
    Ok(if known { Redriven::Due } else { Redriven::Made })
}

/// A set of shards as the 64 bits of an integer.
fn shards(shards: Shards) -> i64 {
    shards.iter().fold(0, |set, shard| set | 1 << shard)
}

fn numbers(deliveries: &[DeliveryId]) -> Result<String> {
    json(&deliveries.iter().map(|delivery| delivery.number).collect::<Vec<_>>())
}

fn ids(rows: sqlx::Result<Vec<SqliteRow>>) -> Result<Vec<DeliveryId>> {
    rows.map_err(own)?.iter().map(rows::id).collect()
}
