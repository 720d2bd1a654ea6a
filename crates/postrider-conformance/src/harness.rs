//! What the suite needs of a store beside the store itself: a fresh one for each case, business tables to have effects
//! on, and a few rough hands that no program should have.

use std::error::Error as StdError;
use std::future::Future;

use postrider::Enlist;
use postrider::testing::{Age, Peek};
use time::OffsetDateTime;

/// The connection of a harness's store.
pub type Conn<H> = <<H as Harness>::Store as Enlist>::Conn;
/// The transaction of a harness's store.
pub type Tx<H> = <<H as Harness>::Store as Enlist>::Tx;

/// What a store can do, as data: the suite holds it to that, and to nothing else.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// Whether two transactions can write at the same time. Where not, the second waits to begin.
    pub concurrent_transactions: bool,
    /// How many transactions a case may have open at once without waiting for a connection; at least 2.
    pub connections: usize,
}

/// One fresh, empty, migrated store. Clones are the same store.
pub trait Harness: Clone + Send + Sync + 'static {
    /// The store under test.
    type Store: Enlist + Age + Peek;

    /// What it can do.
    fn features(&self) -> Features;

    /// The store.
    fn store(&self) -> &Self::Store;

    /// Makes a row whose number is 0, committed.
    fn make_counter(&self, name: &str) -> impl Future<Output = ()> + Send;

    /// The business effect: a plain `UPDATE … SET n = n + 1` of a row that is there, never an upsert, so that an effect
    /// that happens twice is seen.
    fn add(
        &self,
        conn: &mut Conn<Self>,
        counter: &str,
    ) -> impl Future<Output = Result<(), Box<dyn StdError + Send + Sync>>> + Send;

    /// The committed number.
    fn counter(&self, name: &str) -> impl Future<Output = i64> + Send;

    /// Appends a row to a log in the consumer's transaction: order is judged by what the consumer wrote down.
    fn write_down(&self, conn: &mut Conn<Self>, key: &str, sequence: i64) -> impl Future<Output = ()> + Send;

    /// The log, in the order in which its rows were written.
    fn written_down(&self) -> impl Future<Output = Vec<(String, i64)>> + Send;

    /// A plain `INSERT` of an event with nothing but the necessary columns.
    fn insert_plainly(
        &self,
        conn: &mut Conn<Self>,
        event_id: &str,
        topic: &str,
        payload: &str,
    ) -> impl Future<Output = ()> + Send;

    /// Runs a statement that fails, and ignores the error, as a careless consumer would.
    fn swallow_a_database_error(&self, conn: &mut Conn<Self>) -> impl Future<Output = ()> + Send;

    /// Runs a statement with the database's own shell, in the time zone +08:00. None: it has no shell.
    fn shell_insert(&self, sql: &str) -> impl Future<Output = Option<()>> + Send;

    /// A time as a person writes it in that shell.
    fn sql_time(&self, at: OffsetDateTime) -> String;

    /// Locks the first due deliveries of a lane, as a claimer in the middle of its statement does, until the
    /// transaction ends. None: nobody can hold such locks beside a claimer.
    fn hold_locks(&self, lane: &str, deliveries: u32) -> impl Future<Output = Option<Tx<Self>>> + Send;

    /// Several instances of the store on one empty database, not migrated.
    fn unmigrated(&self, instances: usize) -> impl Future<Output = Vec<Self::Store>> + Send;

    /// Cleans up after a case that passed.
    fn finish(self) -> impl Future<Output = ()> + Send;
}
