//! The reference store: what every verb means, without SQL in the way. It lives in this process and dies with it, so
//! it is for tests, for simulations, and for whoever writes a store and wonders what a statement is supposed to do.
//!
//! It has one writer, as SQLite has: [`MemoryStore::begin`] waits until nobody else writes. A transaction is a copy
//! of the state; committed, the copy takes the state's place, dropped, it never was. Readers see what is committed.

mod access;
mod deliveries;
mod events;
mod jobs;
mod keys;
mod operations;
mod rollup;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;
use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard};

use super::*;
use crate::clock::{Clock, SystemClock};
use crate::envelope::{Envelope, trim};
use state::State;

/// The schema that there is: it has no history.
const VERSION: i64 = 1;

/// A store in memory. Clones are the same store.
#[derive(Clone)]
pub struct MemoryStore {
    committed: Arc<RwLock<State>>,
    /// Whoever holds it may write.
    writer: Arc<Mutex<()>>,
    clock: Arc<dyn Clock>,
    wake: Wake,
}

/// The right to write, and the state as the transaction sees it.
pub struct Conn {
    state: State,
    clock: Arc<dyn Clock>,
    _writer: OwnedMutexGuard<()>,
}

impl Conn {
    fn now(&self) -> OffsetDateTime {
        trim(self.clock.now())
    }

    /// What a plain `INSERT` does: the event alone, for the router to find.
    pub fn insert(&mut self, envelope: Envelope) -> Result<()> {
        let now = self.now();
        self.state.insert(envelope, now)
    }

    /// A business effect for tests: one more on a counter that must exist, as a plain `UPDATE … SET n = n + 1`.
    pub fn add(&mut self, counter: &str) -> Result<()> {
        let missing = || Error::Store(format!("there is no counter {counter}").into());
        *self.state.counters.get_mut(counter).ok_or_else(missing)? += 1;
        Ok(())
    }

    /// A business record for tests: what a consumer has seen, in the order in which it saw it.
    pub fn write_down(&mut self, key: &str, sequence: i64) {
        self.state.log.push((key.into(), sequence));
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store by the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(SystemClock)
    }

    /// An empty store whose database's clock is `clock`.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { committed: Arc::default(), writer: Arc::default(), clock: Arc::new(clock), wake: Wake::default() }
    }

    /// Makes a counter that stands at 0; see [`Conn::add`].
    pub async fn make_counter(&self, name: &str) {
        self.write(|state, _| state.counters.insert(name.into(), 0)).await;
    }

    /// Where a counter stands.
    pub fn counter(&self, name: &str) -> Option<i64> {
        self.read(|state, _| state.counters.get(name).copied())
    }

    /// What was written down, in order; see [`Conn::write_down`].
    pub fn written_down(&self) -> Vec<(String, i64)> {
        self.read(|state, _| state.log.clone())
    }

    fn read<T>(&self, read: impl FnOnce(&State, OffsetDateTime) -> T) -> T {
        let state = self.committed.read().unwrap_or_else(PoisonError::into_inner);
        read(&state, trim(self.clock.now()))
    }

    async fn write<T>(&self, write: impl FnOnce(&mut State, OffsetDateTime) -> T) -> T {
        let _writer: MutexGuard<'_, ()> = self.writer.lock().await;
        let mut state = self.committed.write().unwrap_or_else(PoisonError::into_inner);
        write(&mut state, trim(self.clock.now()))
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn migrate(&self) -> Result<()> {
        Ok(())
    }

    async fn schema_version(&self) -> Result<SchemaVersion> {
        Ok(SchemaVersion { found: VERSION, needed: VERSION })
    }

    fn name(&self) -> &str {
        "memory"
    }

    async fn now(&self) -> Result<OffsetDateTime> {
        Ok(self.read(|_, now| now))
    }

    async fn publish(&self, batch: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
        super::publish(self, batch, unheard).await
    }

    async fn route(&self, limit: u32) -> Result<Routed> {
        Ok(self.write(|state, now| state.route(limit, now)).await)
    }

    async fn claim(&self, claim: &Claim) -> Result<Lease> {
        claim.check()?;
        self.write(|state, now| state.claim(claim, now)).await
    }

    async fn claim_keyed(&self, claim: &Claim, dead_head: DeadHead) -> Result<Lease> {
        claim.check()?;
        self.write(|state, now| state.claim_keyed(claim, dead_head, now)).await
    }

    async fn extend(&self, token: Token, deliveries: &[DeliveryId], lease: Duration) -> Result<Vec<DeliveryId>> {
        Ok(self.write(|state, now| state.extend(token, deliveries, lease, now)).await)
    }

    async fn settle(&self, token: Token, deliveries: &[DeliveryId], history: History) -> Result<Vec<DeliveryId>> {
        self.write(|state, now| state.settle(token, deliveries, history, now)).await
    }

    async fn retry(&self, token: Token, failed: &[Failed], history: History) -> Result<Vec<DeliveryId>> {
        self.write(|state, now| state.retry(token, failed, history, now)).await
    }

    async fn bury(&self, token: Token, buried: &[Buried], history: History) -> Result<Vec<DeliveryId>> {
        self.write(|state, now| state.bury(token, buried, history, now)).await
    }

    async fn release(&self, token: Token, deliveries: &[DeliveryId]) -> Result<Vec<DeliveryId>> {
        self.write(|state, _| state.release(token, deliveries)).await
    }

    async fn redrive(&self, event_id: &str, lane: &str, target: &str) -> Result<Redriven> {
        self.write(|state, now| state.redrive(event_id, lane, target, now)).await
    }

    async fn redrive_event(
        &self,
        event_id: &str,
        consumer: Option<&str>,
        rules: &RedriveRules,
    ) -> Result<std::result::Result<Found, Refusal>> {
        self.write(|state, now| state.redrive_event(event_id, consumer, rules, now)).await
    }

    async fn expire(&self, event_id: &str) -> Result<std::result::Result<Found, Refusal>> {
        Ok(self.write(|state, now| state.expire(event_id, now)).await)
    }

    async fn create_operation(&self, new: &NewOperation) -> Result<Operation> {
        new.check()?;
        Ok(self.write(|state, now| state.create_operation(new, now)).await)
    }

    async fn operation(&self, id: &str) -> Result<Option<Operation>> {
        Ok(self.read(|state, _| state.operation(id)))
    }

    async fn operations(&self, limit: u32) -> Result<Vec<Operation>> {
        let newest = |state: &State| {
            let newest_first = state.operations.iter().rev().take(limit as usize);
            newest_first.map(|row| row.operation.clone()).collect()
        };
        Ok(self.read(|state, _| newest(state)))
    }

    async fn steer_operation(&self, id: &str, steer: Steer) -> Result<Option<Operation>> {
        Ok(self.write(|state, now| state.steer_operation(id, steer, now)).await)
    }

    async fn claim_operation(&self, owner: &str, lease: Duration) -> Result<Option<(Operation, Token)>> {
        Ok(self.write(|state, now| state.claim_operation(owner, lease, now)).await)
    }

    async fn advance_operation(&self, advance: &Advance<'_>) -> Result<Option<Operation>> {
        self.write(|state, now| state.advance_operation(advance, now)).await
    }

    async fn release_operation(&self, id: &str, token: Token) -> Result<bool> {
        Ok(self.write(|state, _| state.release_operation(id, token)).await)
    }

    async fn register(&self, subscription: &Subscription) -> Result<()> {
        subscription.check()?;
        self.write(|state, now| state.register(subscription, now)).await;
        Ok(())
    }

    async fn set_subscription(&self, subscription: &Subscription) -> Result<()> {
        subscription.check()?;
        self.write(|state, now| state.set_subscription(subscription, now)).await;
        Ok(())
    }

    async fn remove_subscription(&self, topic: &str, consumer: &str) -> Result<bool> {
        Ok(self.write(|state, now| state.remove_subscription(topic, consumer, now)).await)
    }

    async fn subscriptions(&self, topic: Option<&str>) -> Result<Vec<StoredSubscription>> {
        Ok(self.read(|state, _| state.subscriptions(topic)))
    }

    async fn append_consumption(&self, report: &Report) -> Result<Appended> {
        Ok(self.write(|state, now| state.append_consumption(report, now)).await)
    }

    async fn fold(&self, limit: u32) -> Result<Folded> {
        Ok(self.write(|state, now| state.fold(limit, now)).await)
    }

    async fn acquire_lease(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Token>> {
        Ok(self.write(|state, now| state.acquire_lease(name, owner, lease, now)).await)
    }

    async fn extend_lease(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        Ok(self.write(|state, now| state.extend_lease(name, token, lease, now)).await)
    }

    async fn release_lease(&self, name: &str, token: Token) -> Result<bool> {
        Ok(self.write(|state, _| state.release_lease(name, token)).await)
    }

    async fn find(&self, event_id: &str) -> Result<Option<Found>> {
        Ok(self.read(|state, now| state.find(event_id, now)))
    }

    async fn list(&self, list: &List) -> Result<Page> {
        list.check()?;
        Ok(self.read(|state, now| state.list(list, now)))
    }

    async fn counts(&self) -> Result<BTreeMap<String, LaneCounts>> {
        Ok(self.read(|state, _| state.counts()))
    }

    async fn figures(&self, from: OffsetDateTime, to: OffsetDateTime) -> Result<Vec<Minute>> {
        let minutes = figure::minute_of(from)..figure::minute_of(to).max(figure::minute_of(from));
        Ok(self.read(|state, _| state.figures.range(minutes).map(|(_, row)| figure::minute(*row)).collect()))
    }

    async fn holdings(&self) -> Result<Vec<Holding>> {
        Ok(self.read(|state, now| state.holdings(now)))
    }

    async fn oldest_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        Ok(self.read(|state, now| lanes.iter().map(|lane| state.oldest_due(lane, now)).collect()))
    }

    async fn oldest_pending(&self) -> Result<Option<Duration>> {
        Ok(self.read(|state, now| state.oldest_pending(now)))
    }

    async fn next_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        Ok(self.read(|state, now| lanes.iter().map(|lane| state.next_due(lane, now)).collect()))
    }

    async fn sight(&self, event_ids: &[&str]) -> Result<Vec<String>> {
        let there = |state: &State, id: &&str| state.sequences.contains_key(*id).then(|| (*id).to_owned());
        Ok(self.read(|state, _| event_ids.iter().filter_map(|id| there(state, id)).collect()))
    }

    async fn set_paused(&self, lane: &str, paused: bool) -> Result<()> {
        self.write(|state, _| match paused {
            true => state.paused.insert(lane.into()),
            false => state.paused.remove(lane),
        })
        .await;
        Ok(())
    }

    async fn paused(&self) -> Result<BTreeSet<String>> {
        Ok(self.read(|state, _| state.paused.clone()))
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        Ok(self.write(|state, now| state.prune(prune, now)).await)
    }

    async fn finished(&self, prune: &Prune) -> Result<Finished> {
        Ok(self.read(|state, now| state.finished(prune, now)))
    }

    async fn prune_events(&self, sequences: &[i64]) -> Result<u64> {
        Ok(self.write(|state, _| state.remove_events(sequences)).await)
    }

    fn wake(&self) -> &Wake {
        &self.wake
    }

    async fn plan_job(&self, plan: &JobPlan<'_>) -> Result<()> {
        plan.check()?;
        self.write(|state, now| state.plan_job(plan, now)).await;
        Ok(())
    }

    async fn begin_job(&self, start: &JobStart<'_>) -> Result<Option<Token>> {
        start.check()?;
        Ok(self.write(|state, now| state.begin_job(start, now)).await)
    }

    async fn extend_job(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        Ok(self.write(|state, now| state.extend_job(name, token, lease, now)).await)
    }

    async fn finish_job(&self, name: &str, token: Token, outcome: &JobOutcome) -> Result<bool> {
        Ok(self.write(|state, now| state.finish_job(name, token, outcome, now)).await)
    }

    async fn jobs(&self) -> Result<Vec<JobState>> {
        Ok(self.read(|state, _| state.jobs()))
    }
}

impl Enlist for MemoryStore {
    type Conn = Conn;
    type Tx = Box<Conn>;

    async fn begin(&self) -> Result<Box<Conn>> {
        let writer = Arc::clone(&self.writer).lock_owned().await;
        Ok(Box::new(Conn {
            state: self.read(|state, _| state.clone()),
            clock: Arc::clone(&self.clock),
            _writer: writer,
        }))
    }

    async fn commit(&self, tx: Box<Conn>) -> Result<()> {
        *self.committed.write().unwrap_or_else(PoisonError::into_inner) = tx.state;
        Ok(())
    }

    async fn enqueue(&self, conn: &mut Conn, batch: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
        let now = conn.now();
        let enqueue = |new| conn.state.enqueue(new, unheard, now);
        batch.iter().map(enqueue).collect()
    }

    async fn receive(&self, conn: &mut Conn, receipt: &Receipt<'_>) -> Result<bool> {
        let now = conn.now();
        Ok(conn.state.receive(receipt, now))
    }

    async fn receive_many(&self, conn: &mut Conn, receipts: &[Receipt<'_>]) -> Result<Vec<bool>> {
        let now = conn.now();
        Ok(receipts.iter().map(|receipt| conn.state.receive(receipt, now)).collect())
    }

    async fn complete(&self, conn: &mut Conn, completion: &Completion<'_>) -> Result<()> {
        let now = conn.now();
        conn.state.complete(completion, now)
    }

    async fn confirm_received(&self, conn: &mut Conn, consumer: &str, handled: &[Handled<'_>]) -> Result<()> {
        conn.state.confirm_received(consumer, handled)
    }

    async fn begin_key(&self, conn: &mut Conn, key: &Key<'_>, fingerprint: &[u8], lease: Duration) -> Result<KeyState> {
        let now = conn.now();
        Ok(conn.state.begin_key(key, fingerprint, lease, now))
    }

    async fn complete_key(&self, conn: &mut Conn, key: &Key<'_>, token: Token, result: &str) -> Result<bool> {
        let now = conn.now();
        Ok(conn.state.complete_key(key, token, result, now))
    }

    async fn fail_key(&self, conn: &mut Conn, key: &Key<'_>, token: Token, error: &str) -> Result<bool> {
        let now = conn.now();
        Ok(conn.state.fail_key(key, token, error, now))
    }

    async fn join_key(&self, conn: &mut Conn, key: &Key<'_>, token: Token, lease: Duration) -> Result<Option<Token>> {
        let now = conn.now();
        Ok(conn.state.join_key(key, token, lease, now))
    }

    async fn extend_key(&self, conn: &mut Conn, key: &Key<'_>, token: Token, lease: Duration) -> Result<bool> {
        let now = conn.now();
        Ok(conn.state.extend_key(key, token, lease, now))
    }
}

#[cfg(feature = "testing")]
impl crate::testing::Age for MemoryStore {
    async fn age(&self, by: Duration) -> Result<()> {
        self.write(|state, _| state.age(state::span(by))).await;
        Ok(())
    }
}

#[cfg(feature = "testing")]
impl crate::testing::Peek for MemoryStore {
    async fn enqueued(&self, topic: &str) -> Result<Vec<Envelope>> {
        let of_topic = |state: &State| {
            let events = state.events.values().map(|event| &*event.envelope);
            events.filter(|envelope| envelope.topic == topic).cloned().collect()
        };
        Ok(self.read(|state, _| of_topic(state)))
    }
}
