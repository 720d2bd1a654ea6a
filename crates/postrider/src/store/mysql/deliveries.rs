//! The work of a lane. Every transaction here is short, belongs to the store and runs at READ COMMITTED. It locks its
//! rows by primary key in one order, or skips locked rows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use sqlx::mysql::MySqlConnection;

use super::roles::{large, redrives};
use super::{MySqlStore, rows};
use crate::error::Result;
use crate::shard::{SHARDS, Shards};
use crate::store::batch::{self, millis};
use crate::store::check_read;
use crate::store::sql::{json, retrying};
use crate::store::{Buried, Claim, DeadHead, Deliveries, DeliveryId, Failed, History, Lease, Token};

/// Number of shards that a keyed claim reads first: a quarter, so that four claimers find work in parallel.
const FIRST_SHARDS: usize = SHARDS as usize / 4;
/// A keyed claim reads this many times its limit, and at least the number below: deliveries behind others do not
/// count.
const WINDOW_FACTOR: u32 = 4;
const WINDOW_FLOOR: u32 = 256;
/// How many windows in a row may contain only deliveries that must be parked. At the usual limits, 20,000 deliveries
/// behind one dead one fill that many. Then the claim ends, so that other claims get a turn.
const PARKED_WINDOWS: u32 = 16;

#[async_trait]
impl Deliveries for MySqlStore {
    async fn claim(&self, claim: &Claim) -> Result<Lease> {
        claim.check()?;
        let token = Token::fresh();
        let leased = retrying(|| async {
            let query = sqlx::query(sql!("deliveries/claim"))
                .bind(&claim.lane)
                .bind(shards(claim.shards))
                .bind(claim.limit)
                .bind(token.0)
                .bind(&claim.owner)
                .bind(millis(claim.lease));
            Ok(query.execute(&self.work).await?.rows_affected())
        })
        .await?;
        if leased == 0 {
            return Ok(Lease { token, deliveries: Vec::new() });
        }
        let query = sqlx::query(sql!("deliveries/claim_fetch")).bind(claim.small(leased as usize));
        let query = query.bind(&claim.lane).bind(token.0).bind(leased);
        let (lease, large) = rows::lease(token, &query.fetch_all(&self.work).await?)?;
        large::complete(self, claim, check_read(claim, leased as usize, lease), large).await
    }

    async fn claim_keyed(&self, claim: &Claim, dead_head: DeadHead) -> Result<Lease> {
        claim.check()?;
        retrying(|| claim_runs(self, claim, dead_head)).await
    }

    async fn extend(&self, token: Token, deliveries: &[DeliveryId], lease: Duration) -> Result<Vec<DeliveryId>> {
        let (numbers, expected) = numbers(deliveries)?;
        retrying(|| async {
            let query = sqlx::query(sql!("deliveries/extend")).bind(&numbers).bind(millis(lease)).bind(token.0);
            if query.execute(&self.work).await?.rows_affected() == expected {
                return Ok(deliveries.to_vec());
            }
            let mut session = self.work.acquire().await?;
            Ok(held_by(&mut session, token, &numbers).await?.iter().map(Held::id).collect())
        })
        .await
    }

    async fn settle(&self, token: Token, deliveries: &[DeliveryId], history: History) -> Result<Vec<DeliveryId>> {
        retrying(|| settle(self, token, deliveries, history)).await
    }

    async fn retry(&self, token: Token, failed: &[Failed], history: History) -> Result<Vec<DeliveryId>> {
        let failed = distinct(failed, |failed| failed.id);
        let ids: Vec<_> = failed.iter().map(|failed| failed.id).collect();
        let failures = batch::failures(&failed)?;
        retrying(|| fail(self, sql!("deliveries/retry"), token, &ids, &failures, (true, history))).await
    }

    async fn bury(&self, token: Token, buried: &[Buried], history: History) -> Result<Vec<DeliveryId>> {
        let buried = distinct(buried, |buried| buried.id);
        let ids: Vec<_> = buried.iter().map(|buried| buried.id).collect();
        let failures = batch::burials(&buried)?;
        retrying(|| fail(self, sql!("deliveries/bury"), token, &ids, &failures, (false, history))).await
    }

    async fn release(&self, token: Token, deliveries: &[DeliveryId]) -> Result<Vec<DeliveryId>> {
        let (numbers, _) = numbers(deliveries)?;
        retrying(|| async {
            let mut tx = self.work.begin().await?;
            let held = held_by(&mut tx, token, &numbers).await?;
            sqlx::query(sql!("deliveries/release")).bind(&numbers).bind(token.0).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(held.iter().map(Held::id).collect())
        })
        .await
    }
}

async fn claim_runs(store: &MySqlStore, claim: &Claim, dead_head: DeadHead) -> Result<Lease> {
    let token = Token::fresh();
    let hold = dead_head == DeadHead::Hold;
    if !hold {
        let held: bool =
            sqlx::query_scalar(sql!("deliveries/is_any_held")).bind(&claim.lane).fetch_one(&store.work).await?;
        if held {
            sqlx::query(sql!("deliveries/free_held")).bind(&claim.lane).execute(&store.work).await?;
        }
    }
    for _ in 0..PARKED_WINDOWS {
        let runs = Runs::seen(store, claim, hold).await?;
        let (leased, parked) = runs.take(store, claim, token).await?;
        if !leased.is_empty() {
            let query = sqlx::query(sql!("deliveries/claim_keyed_fetch")).bind(claim.small(leased.len()));
            let query = query.bind(json(&leased)?).bind(token.0);
            let (lease, large) = rows::lease(token, &query.fetch_all(&store.work).await?)?;
            return large::complete(store, claim, check_read(claim, leased.len(), lease), large).await;
        }
        // Parked deliveries hid claimable ones: look again without them.
        if parked == 0 {
            break;
        }
    }
    Ok(Lease { token, deliveries: Vec::new() })
}

/// What a keyed claim has read, without locks: the free run of each key, and the deliveries that cannot move.
#[derive(Default)]
struct Runs {
    /// In the order of their events, limited to the claim's limit.
    stretches: Vec<Vec<i64>>,
    /// Deliveries in the window behind one that is dead or not due, each with that one.
    stuck: Vec<Stuck>,
}

#[derive(Clone, Copy, Serialize)]
struct Stuck {
    id: i64,
    front: i64,
}

#[derive(Serialize)]
struct WantedKey<'a> {
    key: &'a str,
    upto: i64,
}

/// A delivery of a key.
struct Link {
    seq: i64,
    id: i64,
    free: bool,
    stuck: bool,
}

impl Runs {
    /// Steps 1 and 2 of decision 3.
    async fn seen(store: &MySqlStore, claim: &Claim, hold: bool) -> Result<Self> {
        let window: Vec<(i64, String, i64, i8)> = sqlx::query_as(sql!("deliveries/claim_keyed_window"))
            .bind(&claim.lane)
            .bind(shards(claim.shards))
            .bind((claim.limit * WINDOW_FACTOR).max(WINDOW_FLOOR))
            .fetch_all(&store.work)
            .await?;
        if window.is_empty() {
            return Ok(Self::default());
        }
        let mut wanted: Vec<(i8, WantedKey<'_>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (_, key, seq, shard) in &window {
            let place = *places.entry(key).or_insert_with(|| {
                wanted.push((*shard, WantedKey { key, upto: *seq }));
                wanted.len() - 1
            });
            wanted[place].1.upto = wanted[place].1.upto.max(*seq);
        }
        // Each claimer starts with other shards, so that claimers do not compete for the same keys.
        let first = some_shards();
        wanted.sort_by_key(|(shard, _)| !first.contains(shard));
        let wanted: Vec<_> = wanted.into_iter().map(|(_, key)| key).collect();

        let links: Vec<(i64, String, i64, bool, bool)> = sqlx::query_as(sql!("deliveries/claim_keyed_runs"))
            .bind(json(&wanted)?)
            .bind(&claim.lane)
            .bind(hold)
            .fetch_all(&store.work)
            .await?;
        let mut chains: HashMap<&str, Vec<Link>> = HashMap::new();
        for (id, key, seq, free, stuck) in &links {
            let link = Link { seq: *seq, id: *id, free: *free, stuck: *stuck };
            chains.entry(key).or_default().push(link);
        }
        let mut runs = Self::default();
        let mut left = claim.limit as usize;
        let mut fronts: HashMap<&str, (i64, i64)> = HashMap::new();
        for WantedKey { key, .. } in &wanted {
            let Some(mut chain) = chains.remove(key) else { continue };
            chain.sort_unstable_by_key(|link| (link.seq, link.id));
            if let Some(front) = chain.first().filter(|front| front.stuck) {
                fronts.insert(key, (front.seq, front.id));
            }
            let stretch: Vec<_> = chain.iter().take_while(|link| link.free).take(left).map(|link| link.id).collect();
            left -= stretch.len();
            if !stretch.is_empty() {
                runs.stretches.push(stretch);
            }
        }
        for (id, key, seq, _) in &window {
            if let Some((_, front)) = fronts.get(key.as_str()).filter(|(front_seq, _)| seq > front_seq) {
                runs.stuck.push(Stuck { id: *id, front: *front });
            }
        }
        Ok(runs)
    }

    /// Steps 3 and 4: leases what it can lock and, if the claim is not full, parks what cannot move. Returns the ids
    /// of the leased deliveries and the number of parked ones.
    async fn take(&self, store: &MySqlStore, claim: &Claim, token: Token) -> Result<(Vec<i64>, usize)> {
        if self.stretches.is_empty() && self.stuck.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let mut tx = store.work.begin().await?;
        let mut leased = Vec::new();
        let locked =
            lock(&mut tx, sql!("deliveries/claim_keyed_lock"), self.stretches.iter().flatten().copied().collect())
                .await?;
        for stretch in &self.stretches {
            // Of each key only the run before the first delivery that could not be locked.
            leased.extend(stretch.iter().take_while(|id| locked.contains(id)));
        }
        if !leased.is_empty() {
            sqlx::query(sql!("deliveries/claim_keyed"))
                .bind(json(&leased)?)
                .bind(token.0)
                .bind(&claim.owner)
                .bind(millis(claim.lease))
                .execute(&mut *tx)
                .await?;
        }
        let parked = if leased.len() < claim.limit as usize { self.park(&mut tx).await? } else { 0 };
        tx.commit().await?;
        Ok((leased, parked))
    }

    async fn park(&self, tx: &mut MySqlConnection) -> Result<usize> {
        let fronts =
            lock(tx, sql!("deliveries/park_lock"), self.stuck.iter().map(|stuck| stuck.front).collect()).await?;
        let behind = self.stuck.iter().filter(|stuck| fronts.contains(&stuck.front));
        let followers =
            lock(tx, sql!("deliveries/park_followers_lock"), behind.map(|stuck| stuck.id).collect()).await?;
        let parked: Vec<_> = self.stuck.iter().filter(|stuck| followers.contains(&stuck.id)).copied().collect();
        if !parked.is_empty() {
            sqlx::query(sql!("deliveries/park")).bind(json(&parked)?).execute(tx).await?;
        }
        Ok(parked.len())
    }
}

/// The deliveries that the statement could lock.
async fn lock(tx: &mut MySqlConnection, sql: &'static str, mut ids: Vec<i64>) -> Result<HashSet<i64>> {
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let locked: Vec<i64> = sqlx::query_scalar(sql).bind(json(&ids)?).fetch_all(tx).await?;
    Ok(locked.into_iter().collect())
}

/// A quarter of the shards, chosen at random.
fn some_shards() -> HashSet<i8> {
    let start = fastrand::usize(..SHARDS as usize);
    (0..FIRST_SHARDS).filter_map(|n| i8::try_from((start + n) % SHARDS as usize).ok()).collect()
}

async fn settle(
    store: &MySqlStore,
    token: Token,
    deliveries: &[DeliveryId],
    history: History,
) -> Result<Vec<DeliveryId>> {
    let mut tx = store.work.begin().await?;
    if history == History::Omit {
        // The usual case needs one statement: the caller holds all of them, and none has a key.
        let (numbers, expected) = numbers(deliveries)?;
        let query = sqlx::query(sql!("deliveries/settle")).bind(numbers).bind(token.0);
        if query.execute(&mut *tx).await?.rows_affected() == expected {
            tx.commit().await?;
            return Ok(deliveries.to_vec());
        }
        tx.rollback().await?;
        tx = store.work.begin().await?;
    }
    let settled = settle_held(&mut tx, None, token, deliveries, history).await?;
    tx.commit().await?;
    Ok(settled)
}

/// The same row by row, on a session of the store or at the end of a consumer's transaction. There its deliveries must still be
/// in the consumer's lane: the inbox rows of that transaction have its name.
pub(super) async fn settle_held(
    conn: &mut MySqlConnection,
    lane: Option<&str>,
    token: Token,
    deliveries: &[DeliveryId],
    history: History,
) -> Result<Vec<DeliveryId>> {
    let mut held = held_by(conn, token, &numbers(deliveries)?.0).await?;
    held.retain(|held| lane.is_none_or(|lane| held.lane == lane));
    refuse_out_of_order(conn, &mut held).await?;
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<_> = held.iter().map(|held| held.number).collect();
    sqlx::query(sql!("deliveries/settle_held")).bind(json(&ids)?).execute(&mut *conn).await?;
    if history == History::Keep {
        let successes: Vec<_> = held.iter().map(Held::success).collect();
        sqlx::query(sql!("events/append_successes")).bind(json(&successes)?).execute(&mut *conn).await?;
        mark(conn, &held).await?;
    }
    Ok(held.iter().map(Held::id).collect())
}

/// A locked delivery that the caller holds.
#[derive(sqlx::FromRow)]
struct Held {
    event_seq: i64,
    #[sqlx(rename = "id")]
    number: i64,
    lane: String,
    event_key: Option<String>,
}

#[derive(Serialize)]
struct Success<'a> {
    seq: i64,
    consumer: &'a str,
}

impl Held {
    fn id(&self) -> DeliveryId {
        DeliveryId::new(self.event_seq, self.number)
    }

    fn success(&self) -> Success<'_> {
        // An attempt of the lane, not of its target: the broker has confirmed it, but no consumer has received it
        // yet.
        Success { seq: self.event_seq, consumer: &self.lane }
    }

    fn key(&self) -> Option<(&str, &str)> {
        Some((&self.lane, self.event_key.as_deref()?))
    }
}

/// Marks their events for the roll-up.
async fn mark(conn: &mut MySqlConnection, held: &[Held]) -> Result<()> {
    let seqs: Vec<_> = held.iter().map(|held| held.event_seq).collect();
    redrives::mark(conn, &seqs).await
}

async fn held_by(conn: &mut MySqlConnection, token: Token, numbers: &str) -> Result<Vec<Held>> {
    Ok(sqlx::query_as(sql!("deliveries/held_by")).bind(numbers).bind(token.0).fetch_all(conn).await?)
}

#[derive(Serialize)]
struct SettledKey<'a> {
    lane: &'a str,
    key: &'a str,
    upto: i64,
}

/// Keeps of each key only the run from its first delivery on. Deliveries behind one that is not in this call are
/// refused.
async fn refuse_out_of_order(conn: &mut MySqlConnection, held: &mut Vec<Held>) -> Result<()> {
    let mut upto: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for one in held.iter() {
        if let Some(key) = one.key() {
            let last = upto.entry(key).or_insert(one.event_seq);
            *last = (*last).max(one.event_seq);
        }
    }
    if upto.is_empty() {
        return Ok(());
    }
    let keys: Vec<_> = upto.iter().map(|(&(lane, key), &upto)| SettledKey { lane, key, upto }).collect();
    let links: Vec<(String, String, i64, i64)> =
        sqlx::query_as(sql!("deliveries/earlier_of_keys")).bind(json(&keys)?).fetch_all(conn).await?;
    let mine: HashSet<i64> = held.iter().map(|held| held.number).collect();
    let mut in_front: HashMap<(String, String), i64> = HashMap::new();
    for (lane, key, seq, id) in links {
        if !mine.contains(&id) {
            let first = in_front.entry((lane, key)).or_insert(seq);
            *first = (*first).min(seq);
        }
    }
    held.retain(|one| {
        let key = one.key().map(|(lane, key)| (lane.to_owned(), key.to_owned()));
        // An equal place means the same event with another target, which has no order.
        key.and_then(|key| in_front.get(&key)).is_none_or(|first| *first >= one.event_seq)
    });
    Ok(())
}

/// Removes duplicate ids.
fn distinct<T: Clone>(all: &[T], id: fn(&T) -> DeliveryId) -> Vec<T> {
    let mut seen = HashSet::new();
    all.iter().filter(|one| seen.insert(id(one))).cloned().collect()
}

#[derive(Serialize)]
struct FailedKey<'a> {
    lane: &'a str,
    key: &'a str,
    seq: i64,
}

/// Writes failures with `retry.sql` or `bury.sql`, after all statements that check their token.
async fn fail(
    store: &MySqlStore,
    sql: &'static str,
    token: Token,
    ids: &[DeliveryId],
    failures: &str,
    (will_retry, history): (bool, History),
) -> Result<Vec<DeliveryId>> {
    let mut tx = store.work.begin().await?;
    let held = held_by(&mut tx, token, &numbers(ids)?.0).await?;
    if held.is_empty() {
        return Ok(Vec::new());
    }
    if history == History::Keep {
        let query = sqlx::query(sql!("events/append_failures")).bind(will_retry).bind(failures).bind(token.0);
        query.execute(&mut *tx).await?;
        mark(&mut tx, &held).await?;
    }
    let mut first: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for (key, seq) in held.iter().filter_map(|held| Some((held.key()?, held.event_seq))) {
        let first = first.entry(key).or_insert(seq);
        *first = (*first).min(seq);
    }
    if !first.is_empty() {
        let keys: Vec<_> = first.iter().map(|(&(lane, key), &seq)| FailedKey { lane, key, seq }).collect();
        let query = sqlx::query_scalar(sql!("deliveries/followers")).bind(json(&keys)?).bind(token.0);
        let mut followers: Vec<i64> = query.fetch_all(&mut *tx).await?;
        followers.retain(|follower| ids.iter().all(|id| id.number != *follower));
        followers.sort_unstable();
        if !followers.is_empty() {
            let query = sqlx::query(sql!("deliveries/release")).bind(json(&followers)?).bind(token.0);
            query.execute(&mut *tx).await?;
        }
    }
    sqlx::query(sql).bind(failures).bind(token.0).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(held.iter().map(Held::id).collect())
}

/// A set of shards as the 64 bits of an integer.
fn shards(shards: Shards) -> u64 {
    shards.iter().fold(0, |set, shard| set | 1 << shard)
}

/// The numbers of the deliveries as JSON, in the order in which all transactions lock them, and their count.
fn numbers(deliveries: &[DeliveryId]) -> Result<(String, u64)> {
    let mut numbers: Vec<_> = deliveries.iter().map(|delivery| delivery.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok((json(&numbers)?, numbers.len() as u64))
}
