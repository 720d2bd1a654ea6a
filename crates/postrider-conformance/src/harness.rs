//! What the suite needs besides the store: a fresh store for each case, business tables, and direct access to the
//! database for writes and locks that the public API does not offer.

use std::error::Error as StdError;
use std::future::Future;

use postrider::Enlist;
use postrider::outbox::Dialect;
use postrider::store::Keys;
use postrider::testing::{Age, Peek};
use time::OffsetDateTime;

/// The connection of a harness's store.
pub type Conn<H> = <<H as Harness>::Store as Enlist>::Conn;
/// The transaction of a harness's store.
pub type Tx<H> = <<H as Harness>::Store as Enlist>::Tx;

/// The capabilities of a store. The suite tests exactly these.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// Whether two transactions can write at the same time. If false, the second waits to begin.
    pub concurrent_transactions: bool,
    /// How many transactions a case may keep open without waiting for a connection. At least 2.
    pub connections: usize,
}

/// One fresh, empty, migrated store. Clones share the store.
pub trait Harness: Clone + Send + Sync + 'static {
    /// The store under test.
    type Store: Keys + Age + Peek;

    /// The capabilities of the store.
    fn features(&self) -> Features;

    /// The store.
    fn store(&self) -> &Self::Store;

    /// Inserts a counter with the value 0 and commits.
    fn make_counter(&self, name: &str) -> impl Future<Output = ()> + Send;

    /// The business effect: a plain `UPDATE … SET n = n + 1` of an existing row. It is never an upsert, so that a
    /// repeated effect is visible.
    fn add(
        &self,
        conn: &mut Conn<Self>,
        counter: &str,
    ) -> impl Future<Output = Result<(), Box<dyn StdError + Send + Sync>>> + Send;

    /// The committed value of the counter.
    fn counter(&self, name: &str) -> impl Future<Output = i64> + Send;

    /// Appends a row to a log in the consumer's transaction. The order cases
    /// compare this log, not what the store reports.
    fn write_down(&self, conn: &mut Conn<Self>, key: &str, sequence: i64) -> impl Future<Output = ()> + Send;

    /// The log, in insertion order.
    fn written_down(&self) -> impl Future<Output = Vec<(String, i64)>> + Send;

    /// Inserts an event with a plain `INSERT` that sets only the required columns.
    fn insert_plainly(
        &self,
        conn: &mut Conn<Self>,
        event_id: &str,
        topic: &str,
        payload: &str,
    ) -> impl Future<Output = ()> + Send;

    /// The SQL of the store, or `None` if it has none. The next three methods are only called if it has.
    fn dialect(&self) -> Option<Dialect>;

    /// A connection without a transaction, as a program has it that Postrider knows nothing about.
    fn bare_connection(&self) -> impl Future<Output = Box<Conn<Self>>> + Send;

    /// Runs SQL with values, every one of them text.
    fn execute(&self, conn: &mut Conn<Self>, sql: &str, values: &[String]) -> impl Future<Output = ()> + Send;

    /// Reads rows whose columns are all text.
    fn texts(&self, sql: &str) -> impl Future<Output = Vec<Vec<Option<String>>>> + Send;

    /// Runs a statement that fails and ignores the error, like a faulty consumer.
    fn swallow_a_database_error(&self, conn: &mut Conn<Self>) -> impl Future<Output = ()> + Send;

    /// Runs a statement in the database's own shell, in time zone +08:00. Returns `None` if the database has no shell.
    fn shell_insert(&self, sql: &str) -> impl Future<Output = Option<()>> + Send;

    /// A time literal, as a user writes it in that shell.
    fn sql_time(&self, at: OffsetDateTime) -> String;

    /// Locks the first due deliveries of a lane until the transaction ends, as a concurrent claim statement does.
    /// Returns `None` if the store allows no second writer.
    fn hold_locks(&self, lane: &str, deliveries: u32) -> impl Future<Output = Option<Tx<Self>>> + Send;

    /// Several instances of the store on one empty database, not migrated.
    fn unmigrated(&self, instances: usize) -> impl Future<Output = Vec<Self::Store>> + Send;

    /// Cleans up after a passed case.
    fn finish(self) -> impl Future<Output = ()> + Send;
}
