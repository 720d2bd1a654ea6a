//! The reference store: defines each operation without SQL. It lives in this process only. Use it for tests and
//! simulations, and as a specification when you write a store.
//!
//! It has one writer, like SQLite: [`MemoryStore::begin`] waits until no other transaction is open. A transaction
//! works on a copy of the state, and a commit replaces the state by the copy. Readers see committed state.

mod access;
mod deliveries;
mod events;
mod figures;
mod instances;
mod jobs;
mod key_order;
mod keys;
mod leases;
mod operations;
mod promises;
mod redrives;
mod state;
mod stories;
mod subscriptions;
mod upkeep;
mod wake;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;
use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard};

use super::{
    About, Completion, Enlist, Enqueued, Handled, Key, KeyState, Keys, NewEvent, Receipt, Schema, SchemaVersion, Token,
    Unheard,
};
use crate::clock::{Clock, SystemClock};
use crate::envelope::{Envelope, trim};
use crate::error::{Error, Result};
use crate::wake::Wake;
use state::{State, StoredRepeat};

/// The only schema version: this store has no migrations.
const VERSION: i64 = 1;

/// A store in memory. Clones are the same store.
#[derive(Clone)]
pub struct MemoryStore {
    committed: Arc<RwLock<State>>,
    /// The lock of the one writer.
    writer: Arc<Mutex<()>>,
    clock: Arc<dyn Clock>,
    wake: Wake,
}

/// A transaction: the write lock and a copy of the state.
pub struct Conn {
    state: State,
    clock: Arc<dyn Clock>,
    _writer: OwnedMutexGuard<()>,
}

impl Conn {
    fn now(&self) -> OffsetDateTime {
        trim(self.clock.now())
    }

    /// Does what a plain `INSERT` does: stores the event without deliveries, for the router to find.
    pub fn insert(&mut self, envelope: Envelope) -> Result<()> {
        let now = self.now();
        self.state.insert(envelope, now)
    }

    /// A business effect for tests: adds one to an existing counter, like `UPDATE … SET n = n + 1`.
    pub fn add(&mut self, counter: &str) -> Result<()> {
        let missing = || Error::Store(format!("there is no counter {counter}").into());
        *self.state.counters.get_mut(counter).ok_or_else(missing)? += 1;
        Ok(())
    }

    /// A business record for tests: appends what a consumer has processed.
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
    /// An empty store that uses the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(SystemClock)
    }

    /// An empty store that uses `clock` as the database's clock.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { committed: Arc::default(), writer: Arc::default(), clock: Arc::new(clock), wake: Wake::default() }
    }

    /// Creates a counter with value 0; see [`Conn::add`].
    pub async fn make_counter(&self, name: &str) {
        self.write(|state, _| state.counters.insert(name.into(), 0)).await;
    }

    /// The value of a counter.
    pub fn counter(&self, name: &str) -> Option<i64> {
        self.read(|state, _| state.counters.get(name).copied())
    }

    /// The appended records, in order; see [`Conn::write_down`].
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
impl Schema for MemoryStore {
    async fn migrate(&self) -> Result<()> {
        Ok(())
    }

    async fn schema_version(&self) -> Result<SchemaVersion> {
        Ok(SchemaVersion { found: VERSION, needed: VERSION })
    }

    fn name(&self) -> &str {
        "memory"
    }

    async fn about(&self) -> Result<About> {
        Ok(About { kind: "memory", version: env!("CARGO_PKG_VERSION").into(), sizes: Vec::new() })
    }

    async fn probe(&self) -> Result<()> {
        Ok(())
    }

    async fn now(&self) -> Result<OffsetDateTime> {
        Ok(self.read(|_, now| now))
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

    async fn note_repeat(&self, conn: &mut Conn, consumer: &str, event_id: &str) -> Result<()> {
        let repeated_at = conn.now();
        let row = conn.state.repeats.entry((consumer.into(), event_id.into()));
        let row = row.or_insert(StoredRepeat { repeats: 0, repeated_at });
        *row = StoredRepeat { repeats: row.repeats + 1, repeated_at };
        Ok(())
    }

    async fn keep_key(&self, conn: &mut Conn, consumer: &str, event_id: &str, key: &str) -> Result<()> {
        if let Some(row) = conn.state.inbox.get_mut(&(consumer.into(), event_id.into())) {
            row.idempotency_key = Some(key.into());
        }
        Ok(())
    }

    async fn complete(&self, conn: &mut Conn, completion: &Completion<'_>) -> Result<()> {
        let now = conn.now();
        conn.state.complete(completion, now)
    }

    async fn confirm_received(&self, conn: &mut Conn, consumer: &str, handled: &[Handled<'_>]) -> Result<()> {
        conn.state.confirm_received(consumer, handled)
    }
}

impl Keys for MemoryStore {
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
