//! The work of a lane.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;

use super::address::Addresses;
use super::front::Place;
use super::known_keys::KnownKeys;
use super::roles::large;
use super::rows::Leased;
use super::{PostgresStore, rows};
use crate::error::Result;
use crate::shard::{SHARDS, Shards};
use crate::store::batch::{self, millis};
use crate::store::check_read;
use crate::store::sql::retrying;
use crate::store::{Buried, Claim, DeadHead, Deliveries, DeliveryId, Failed, History, Lease, Token};

/// Number of shards that one look of a keyed claim reads, so that four claimers find work in parallel; and number of
/// rows, as a multiple of the limit: deliveries behind others do not count.
const LOOK_SHARDS: i64 = SHARDS as i64 / 4;
const LOOK_LIMITS: u32 = 2;
/// Minimum number of rows.
const LOOK_FLOOR: u32 = 256;

/// How many windows in a row may contain only deliveries that must be parked. At the usual limits, 20,000 deliveries
/// behind one dead one fill that many. Then the claim ends, so that other claims get a turn.
const PARKED_WINDOWS: u32 = 32;

#[async_trait]
impl Deliveries for PostgresStore {
    async fn claim(&self, claim: &Claim) -> Result<Lease> {
        claim.check()?;
        let token = Token::fresh();
        let front = self.fronts.of(claim);
        let mut leased = retrying(|| claim_behind(self, front, claim, token)).await?;
        if leased.is_empty() && front.is_some() {
            leased = retrying(|| claim_behind(self, None, claim, token)).await?;
        }
        lease(self, claim, token, leased).await
    }

    async fn claim_keyed(&self, claim: &Claim, dead_head: DeadHead) -> Result<Lease> {
        claim.check()?;
        let token = Token::fresh();
        let keys = self.known_keys.take(claim);
        if !keys.is_empty() {
            let leased = retrying(|| claim_known_keys(self, &keys, claim, dead_head, token)).await?;
            let lease = lease(self, claim, token, leased).await?;
            self.known_keys.give_back(claim, keys, &lease);
            if !lease.deliveries.is_empty() {
                return Ok(lease);
            }
        }
        for _ in 0..PARKED_WINDOWS {
            let (leased, looked) = retrying(|| look_for_keys(self, claim, dead_head, token)).await?;
            let only_parked = leased.is_empty() && looked.is_some();
            self.known_keys.seen(claim, looked.unwrap_or_default());
            // Parked deliveries hid claimable ones: look again without them.
            if !only_parked {
                return lease(self, claim, token, leased).await;
            }
        }
        Ok(Lease { token, deliveries: Vec::new() })
    }

    async fn extend(&self, token: Token, deliveries: &[DeliveryId], lease: Duration) -> Result<Vec<DeliveryId>> {
        retrying(|| async {
            let query = sqlx::query(sql!("deliveries/extend")).bind(sequences(deliveries)).bind(numbers(deliveries));
            ids(query.bind(token.0).bind(millis(lease)).fetch_all(&self.work).await)
        })
        .await
    }

    async fn settle(&self, token: Token, deliveries: &[DeliveryId], history: History) -> Result<Vec<DeliveryId>> {
        let settled = retrying(|| async {
            let mut session = self.work.acquire().await?;
            let settled = settle_known(&mut session, None, token, deliveries, history).await;
            self.work.end(session, &settled);
            Ok(settled?)
        })
        .await?;
        if settled.len() == deliveries.len() {
            return Ok(deliveries.to_vec());
        }
        retrying(|| async {
            let mut tx = self.work.begin().await?;
            let settled = settle_moved(&mut tx, None, token, deliveries, &settled, history).await?;
            tx.commit().await?;
            Ok(settled)
        })
        .await
    }

    async fn retry(&self, token: Token, failed: &[Failed], history: History) -> Result<Vec<DeliveryId>> {
        let failed = batch::failures(failed)?;
        retrying(|| fail(self, sql!("deliveries/retry"), token, &failed, history)).await
    }

    async fn bury(&self, token: Token, buried: &[Buried], history: History) -> Result<Vec<DeliveryId>> {
        let buried = batch::burials(buried)?;
        retrying(|| fail(self, sql!("deliveries/bury"), token, &buried, history)).await
    }

    async fn release(&self, token: Token, deliveries: &[DeliveryId]) -> Result<Vec<DeliveryId>> {
        retrying(|| async {
            let query = sqlx::query(sql!("deliveries/release")).bind(sequences(deliveries)).bind(numbers(deliveries));
            ids(query.bind(token.0).fetch_all(&self.work).await)
        })
        .await
    }
}

/// Leases due deliveries after a place, or from the oldest on for `None`.
async fn claim_behind(store: &PostgresStore, front: Option<Place>, claim: &Claim, token: Token) -> Result<Vec<Leased>> {
    let began = Instant::now();
    let row = sqlx::query(sql!("deliveries/claim"))
        .bind(&claim.lane)
        .bind(shards(claim.shards))
        .bind(i64::from(claim.limit))
        .bind(token.0)
        .bind(&claim.owner)
        .bind(millis(claim.lease))
        .bind(front.map(|front| front.due_at))
        .bind(front.map_or(0, |front| front.number))
        .fetch_one(&store.work)
        .await?;
    let leased = rows::leased(&row)?;
    store.fronts.reached(claim, front, leased.len(), rows::last_due(&row)?, began.elapsed());
    Ok(leased)
}

/// Leases runs of these keys.
async fn claim_known_keys(
    store: &PostgresStore,
    keys: &[String],
    claim: &Claim,
    dead_head: DeadHead,
    token: Token,
) -> Result<Vec<Leased>> {
    let query = sqlx::query(sql!("deliveries/claim_known_keys"))
        .bind(&claim.lane)
        .bind(keys)
        .bind(i64::from(claim.limit))
        .bind(token.0)
        .bind(&claim.owner)
        .bind(millis(claim.lease))
        .bind(dead_head == DeadHead::Hold);
    rows::leased(&query.fetch_one(&store.work).await?)
}

/// Leases runs of the keys that have waited longest. Also returns the other waiting keys if there is a backlog, or if
/// nothing was leased but something was parked.
async fn look_for_keys(
    store: &PostgresStore,
    claim: &Claim,
    dead_head: DeadHead,
    token: Token,
) -> Result<(Vec<Leased>, Option<Vec<String>>)> {
    let row = sqlx::query(sql!("deliveries/claim_keyed"))
        .bind(&claim.lane)
        .bind(shards(claim.shards))
        .bind(i64::from(claim.limit))
        .bind(token.0)
        .bind(&claim.owner)
        .bind(millis(claim.lease))
        .bind(dead_head == DeadHead::Hold)
        .bind(i64::from((claim.limit * LOOK_LIMITS).max(LOOK_FLOOR)))
        .bind(lane_number(&claim.lane))
        .bind(LOOK_SHARDS)
        .bind(i64::from(KnownKeys::backlog(claim)))
        .fetch_one(&store.work)
        .await?;
    Ok((rows::leased(&row)?, rows::looked(&row)?))
}

/// What a claim has leased, with its events.
async fn lease(store: &PostgresStore, claim: &Claim, token: Token, leased: Vec<Leased>) -> Result<Lease> {
    if leased.is_empty() {
        return Ok(Lease { token, deliveries: Vec::new() });
    }
    let (first, last) = stretches(&leased);
    let count = leased.len();
    let query = sqlx::query(sql!("deliveries/claim_fetch")).bind(first).bind(last).bind(claim.small(count));
    let rows::Fetched { deliveries, say_more, orphans, large } =
        rows::claimed(leased, &query.fetch_all(&store.work).await?)?;
    let mut lease = check_read(claim, count, Lease { token, deliveries });
    if !orphans.is_empty() {
        let query = sqlx::query(sql!("deliveries/drop_orphans")).bind(orphans).bind(token.0);
        query.execute(&store.work).await?;
    }
    if !say_more.is_empty() {
        let query = sqlx::query(sql!("deliveries/claim_more")).bind(say_more);
        rows::more(&mut lease, &query.fetch_all(&store.work).await?)?;
    }
    large::complete(store, claim, lease, large).await
}

/// Settles as the end of a consumer's transaction. Its deliveries must still be in the consumer's lane: the inbox rows of this
/// transaction have its name.
pub(super) async fn settle_on(
    conn: &mut PgConnection,
    lane: &str,
    token: Token,
    deliveries: &[DeliveryId],
    history: History,
) -> sqlx::Result<Vec<DeliveryId>> {
    let settled = settle_known(&mut *conn, Some(lane), token, deliveries, history).await?;
    if settled.len() == deliveries.len() {
        return Ok(deliveries.to_vec());
    }
    settle_moved(conn, Some(lane), token, deliveries, &settled, history).await
}

/// Settles in a transaction what the first search did not find, and returns everything that is settled. Extending a lease
/// moves its row: the old address finds nothing, and neither does a search that waited for the extension to commit. Locked
/// first, the rows stay where they are. What comes behind a moved row in its key was not settled either.
async fn settle_moved(
    conn: &mut PgConnection,
    lane: Option<&str>,
    token: Token,
    deliveries: &[DeliveryId],
    settled: &[i64],
    history: History,
) -> sqlx::Result<Vec<DeliveryId>> {
    let mut settled: HashSet<i64> = settled.iter().copied().collect();
    let left = deliveries.iter().filter(|delivery| !settled.contains(&delivery.number));
    let left: Vec<_> = left.map(|delivery| DeliveryId::new(delivery.sequence, delivery.number)).collect();
    let lock =
        "SELECT 1 FROM postrider_delivery WHERE event_seq = ANY ($1) AND token = $2 ORDER BY event_seq, id FOR UPDATE";
    sqlx::query(lock).bind(sequences(&left)).bind(token.0).execute(&mut *conn).await?;
    settled.extend(settle_known(conn, lane, token, &left, history).await?);
    Ok(deliveries.iter().copied().filter(|delivery| settled.contains(&delivery.number)).collect())
}

/// The numbers of the deliveries that were found at their address, or by their event if there is no address.
async fn settle_known(
    conn: &mut PgConnection,
    lane: Option<&str>,
    token: Token,
    deliveries: &[DeliveryId],
    history: History,
) -> sqlx::Result<Vec<i64>> {
    let addresses = deliveries.iter().filter_map(DeliveryId::hint).collect();
    let elsewhere = deliveries.iter().filter(|delivery| delivery.hint().is_none());
    let settled: Option<Vec<i64>> = sqlx::query_scalar(match history {
        History::Keep => sql!("deliveries/settle_keep"),
        History::Omit => sql!("deliveries/settle"),
    })
    .bind(Addresses(addresses))
    .bind(numbers(deliveries))
    .bind(token.0)
    .bind(elsewhere.map(|delivery| delivery.sequence).collect::<Vec<_>>())
    .bind(lane)
    .fetch_one(conn)
    .await?;
    Ok(settled.unwrap_or_default())
}

async fn fail(
    store: &PostgresStore,
    sql: &'static str,
    token: Token,
    failures: &str,
    history: History,
) -> Result<Vec<DeliveryId>> {
    ids(sqlx::query(sql).bind(failures).bind(token.0).bind(history == History::Keep).fetch_all(&store.work).await)
}

/// The first and the last seq of each contiguous range of events.
fn stretches(leased: &[Leased]) -> (Vec<i64>, Vec<i64>) {
    // Two deliveries of one event belong to one range.
    let stretches = leased.chunk_by(|one, next| next.id.sequence - one.id.sequence <= 1);
    stretches.filter_map(|stretch| Some((stretch.first()?.id.sequence, stretch.last()?.id.sequence))).unzip()
}

/// NULL means all: the statement then does not check the shard.
fn shards(shards: Shards) -> Option<Vec<i16>> {
    (shards != Shards::ALL).then(|| shards.iter().map(i16::from).collect())
}

/// Advisory locks have numbers. Two lanes with the same number only block each other more than necessary.
fn lane_number(lane: &str) -> i32 {
    lane.bytes().fold(0_i32, |number, byte| number.wrapping_mul(31).wrapping_add(i32::from(byte)))
}

fn sequences(deliveries: &[DeliveryId]) -> Vec<i64> {
    deliveries.iter().map(|delivery| delivery.sequence).collect()
}

fn numbers(deliveries: &[DeliveryId]) -> Vec<i64> {
    deliveries.iter().map(|delivery| delivery.number).collect()
}

fn ids(rows: sqlx::Result<Vec<PgRow>>) -> Result<Vec<DeliveryId>> {
    rows?.iter().map(rows::delivery_id).collect()
}
