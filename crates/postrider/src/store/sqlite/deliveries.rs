//! The work of a lane.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::dialect::append_successes;
use super::roles::large;
use super::roles::redrives::mark;
use super::{SqliteStore, rows};
use crate::error::Result;
use crate::shard::Shards;
use crate::store::batch::{self, millis};
use crate::store::check_read;
use crate::store::sql::json;
use crate::store::{Buried, Claim, DeadHead, Deliveries, DeliveryId, Failed, History, Lease, Token};

/// A keyed claim reads this many times its limit, and at least the number below: deliveries behind others do not
/// count.
const WINDOW_FACTOR: u32 = 4;
const WINDOW_FLOOR: u32 = 256;
/// How many windows in a row may contain only deliveries that must be parked. At the usual limits, 20,000 deliveries
/// behind one dead one fill that many. Then the claim ends, so that other claims get a turn.
const PARKED_WINDOWS: u32 = 16;

#[async_trait]
impl Deliveries for SqliteStore {
    async fn claim(&self, claim: &Claim) -> Result<Lease> {
        claim.check()?;
        let token = Token::fresh();
        let leased = sqlx::query(sql!("deliveries/claim"))
            .bind(&claim.lane)
            .bind(shards(claim.shards))
            .bind(claim.limit)
            .bind(token.0)
            .bind(&claim.owner)
            .bind(millis(claim.lease))
            .execute(self.writer()?)
            .await?
            .rows_affected();
        if leased == 0 {
            return Ok(Lease { token, deliveries: Vec::new() });
        }
        // Read by a reader, so that the writer is free again.
        let fetch = sqlx::query(sql!("deliveries/claim_fetch")).bind(&claim.lane).bind(token.0).bind(leased as i64);
        let fetch = fetch.bind(claim.small(leased as usize));
        let (lease, large) = rows::lease(token, &fetch.fetch_all(&self.reader).await?)?;
        large::complete(self, claim, check_read(claim, leased as usize, lease), large).await
    }

    async fn claim_keyed(&self, claim: &Claim, dead_head: DeadHead) -> Result<Lease> {
        claim.check()?;
        let token = Token::fresh();
        let hold = dead_head == DeadHead::Hold;
        for _ in 0..PARKED_WINDOWS {
            let mut tx = self.write().await?;
            let (leased, parked) = claim_runs(&mut tx, claim, token, hold).await?;
            tx.commit().await?;
            if !leased.is_empty() {
                let fetch = sqlx::query(sql!("deliveries/claim_keyed_fetch")).bind(json(&leased)?).bind(token.0);
                let fetch = fetch.bind(claim.small(leased.len()));
                let (lease, large) = rows::lease(token, &fetch.fetch_all(&self.reader).await?)?;
                return large::complete(self, claim, check_read(claim, leased.len(), lease), large).await;
            }
            // Parked deliveries hid claimable ones: look again without them.
            if parked == 0 {
                break;
            }
        }
        Ok(Lease { token, deliveries: Vec::new() })
    }

    async fn extend(&self, token: Token, deliveries: &[DeliveryId], lease: Duration) -> Result<Vec<DeliveryId>> {
        let query = sqlx::query(sql!("deliveries/extend"));
        ids(query.bind(numbers(deliveries)?).bind(token.0).bind(millis(lease)).fetch_all(self.writer()?).await)
    }

    async fn settle(&self, token: Token, deliveries: &[DeliveryId], history: History) -> Result<Vec<DeliveryId>> {
        let numbers = numbers(deliveries)?;
        if history == History::Omit && settle_all(self, token, &numbers, deliveries.len()).await? {
            return Ok(deliveries.to_vec());
        }
        let query = sqlx::query(sql!("deliveries/settle")).bind(numbers).bind(token.0);
        if history == History::Omit {
            return ids(query.fetch_all(self.writer()?).await);
        }
        let mut tx = self.write().await?;
        let settled = query.fetch_all(&mut *tx).await?;
        let successes = settled.iter().map(rows::success).collect::<Result<Vec<_>>>()?;
        append_successes(&mut tx, &successes).await?;
        tx.commit().await?;
        ids(Ok(settled))
    }

    async fn retry(&self, token: Token, failed: &[Failed], history: History) -> Result<Vec<DeliveryId>> {
        fail(self, sql!("deliveries/retry"), token, batch::failures(failed)?, true, history).await
    }

    async fn bury(&self, token: Token, buried: &[Buried], history: History) -> Result<Vec<DeliveryId>> {
        fail(self, sql!("deliveries/bury"), token, batch::burials(buried)?, false, history).await
    }

    async fn release(&self, token: Token, deliveries: &[DeliveryId]) -> Result<Vec<DeliveryId>> {
        let query = sqlx::query(sql!("deliveries/release"));
        ids(query.bind(numbers(deliveries)?).bind(token.0).fetch_all(self.writer()?).await)
    }
}

/// Leases runs and, if the claim is not full, parks what cannot move. Returns the ids of the leased deliveries and
/// the number of parked ones.
async fn claim_runs(tx: &mut SqliteConnection, claim: &Claim, token: Token, hold: bool) -> Result<(Vec<i64>, u64)> {
    let window = (claim.limit * WINDOW_FACTOR).max(WINDOW_FLOOR);
    if !hold {
        let query = sqlx::query(sql!("deliveries/free_held")).bind(&claim.lane);
        query.execute(&mut *tx).await?;
    }
    let leased = sqlx::query(sql!("deliveries/claim_keyed"))
        .bind(&claim.lane)
        .bind(shards(claim.shards))
        .bind(claim.limit)
        .bind(token.0)
        .bind(&claim.owner)
        .bind(millis(claim.lease))
        .bind(hold)
        .bind(window)
        .fetch_all(&mut *tx)
        .await?;
    let leased = leased.iter().map(rows::claimed).collect::<Result<Vec<_>>>()?;
    let held: Vec<_> = leased.iter().filter(|(_, held)| *held).map(|(id, _)| id).collect();
    if !held.is_empty() {
        let query = sqlx::query(sql!("deliveries/clear_held")).bind(json(&held)?);
        query.execute(&mut *tx).await?;
    }
    let leased: Vec<_> = leased.into_iter().map(|(id, _)| id).collect();
    if leased.len() == claim.limit as usize {
        return Ok((leased, 0));
    }
    let parked = sqlx::query(sql!("deliveries/park"))
        .bind(&claim.lane)
        .bind(shards(claim.shards))
        .bind(hold)
        .bind(window)
        .execute(&mut *tx)
        .await?;
    Ok((leased, parked.rows_affected()))
}

/// Settles all of them. Settles none if some have a key or are not held by the caller.
async fn settle_all(store: &SqliteStore, token: Token, numbers: &str, expected: usize) -> Result<bool> {
    let mut tx = store.write().await?;
    let query = sqlx::query(sql!("deliveries/settle_all")).bind(numbers).bind(token.0);
    let settled = query.execute(&mut *tx).await?.rows_affected();
    if settled != expected as u64 {
        tx.rollback().await?;
        return Ok(false);
    }
    tx.commit().await?;
    Ok(true)
}

/// Writes failures with `retry.sql` or `bury.sql`, after all statements that check their token.
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
        sqlx::query(sql!("events/append_failures"))
            .bind(&failures)
            .bind(token.0)
            .bind(will_retry)
            .execute(&mut *tx)
            .await?;
    }
    sqlx::query(sql!("deliveries/release_followers")).bind(&failures).bind(token.0).execute(&mut *tx).await?;
    let failed = sqlx::query(sql).bind(&failures).bind(token.0).fetch_all(&mut *tx).await;
    let failed = ids(failed)?;
    if history == History::Keep {
        let seqs: Vec<i64> = failed.iter().map(|id| id.sequence).collect();
        mark(&mut tx, &seqs).await?;
    }
    tx.commit().await?;
    Ok(failed)
}

/// A set of shards as the 64 bits of an integer.
fn shards(shards: Shards) -> i64 {
    shards.iter().fold(0, |set, shard| set | 1 << shard)
}

fn numbers(deliveries: &[DeliveryId]) -> Result<String> {
    json(&deliveries.iter().map(|delivery| delivery.number).collect::<Vec<_>>())
}

fn ids(rows: sqlx::Result<Vec<SqliteRow>>) -> Result<Vec<DeliveryId>> {
    rows?.iter().map(rows::id).collect()
}
