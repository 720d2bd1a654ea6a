//! The tables of one shard, and every statement on them. Everything happens in the caller's transaction.
//!
//! What differs from database to database is text (`database/statements.rs`): another database is another set of it.

mod mysql;
mod postgres;
mod question_marks;
mod sqlite;
mod statements;

use std::future::Future;
use std::ops::DerefMut;
use std::time::Duration;

use postrider::Enlist;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use sqlx::Sqlite;
use sqlx::pool::PoolConnection;
use uuid::Uuid;

use crate::batch::{Batch, Item};
use crate::entry::{Entry, Status};
use crate::error::Error;

/// What is there of one SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stock {
    /// Can be sold.
    pub stock: i64,
    /// Held for deductions that are being worked on.
    pub reserved: i64,
}

/// What an attempt holds, or has deducted, of one SKU.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// Which attempt of its key.
    pub attempt: i64,
    /// Of what, and how many.
    pub item: Item,
    /// False: only held.
    pub is_deducted: bool,
}

/// What a change of stock has to find. Nothing here goes below zero: the database refuses it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// From stock to reserved, if there is enough.
    Hold,
    /// From reserved to sold.
    Deduct,
    /// From reserved back to stock.
    LetGo,
    /// From sold back to stock.
    Return,
}

/// A store that can be read without waiting for those who write: on SQLite, [`Enlist::begin`] takes the one write lock.
pub trait Read: Enlist {
    /// What reads.
    type Reader: DerefMut<Target = Self::Conn> + Send;

    /// Sees what is committed; writes nothing.
    fn read(&self) -> impl Future<Output = Result<Self::Reader, Error>> + Send;
}

impl Read for SqliteStore {
    type Reader = PoolConnection<Sqlite>;

    async fn read(&self) -> Result<Self::Reader, Error> {
        Ok(self.pool().acquire().await?)
    }
}

impl Read for PostgresStore {
    type Reader = Self::Tx;

    async fn read(&self) -> Result<Self::Reader, Error> {
        Ok(self.begin().await?)
    }
}

impl Read for MySqlStore {
    type Reader = Self::Tx;

    async fn read(&self) -> Result<Self::Reader, Error> {
        Ok(self.begin().await?)
    }
}

/// How often a transaction that lost is run again. Each is over in milliseconds, so whoever was in its way is gone by then.
const TRIES: u32 = 10;

/// Runs a transaction of ours, from its beginning to its commit, until the database lets it through: a deadlock is nobody's
/// fault, and nothing of it was written.
pub(crate) async fn again<T, F: Future<Output = Result<T, Error>>>(work: impl Fn() -> F) -> Result<T, Error> {
    for tries in 0..TRIES {
        match work().await {
            Err(error) if error.is_lost() => {
                tracing::debug!(%error, tries, "A transaction lost, and is run again");
                // At random, so that two that met do not meet again.
                let micros = Uuid::new_v4().as_u64_pair().0 % (1_000 << tries);
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
            done => return done,
        }
    }
    work().await
}

/// A store that also holds the tables of a shard. True means: exactly the row that was meant.
pub trait Database: Read {
    /// Makes the tables where they are missing.
    fn make_tables(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Which shard of how many this database is; None: nobody has said so yet.
    fn find_place(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<Option<(i64, i64)>>> + Send;

    /// Says which shard it is, for good.
    fn take_place(conn: &mut Self::Conn, number: i64, shards: i64) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// A key's row; None: nobody has used it.
    fn find_entry(conn: &mut Self::Conn, key: &str) -> impl Future<Output = Result<Option<Entry>, Error>> + Send;

    /// The first attempt of a key; a key that is there is a unique violation.
    fn begin_entry(
        conn: &mut Self::Conn,
        key: &str,
        batch: &Batch,
        lease: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The attempt after `after`, with a lease of its own. False: somebody else was faster. One statement, guarded by the
    /// attempt: of two that saw the same failure, one finds it.
    fn retry_entry(
        conn: &mut Self::Conn,
        key: &str,
        after: i64,
        lease: Duration,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Ends an attempt. False: it is not the key's attempt any more, or it has ended.
    fn end_entry(
        conn: &mut Self::Conn,
        key: &str,
        attempt: i64,
        status: Status,
        error: Option<&str>,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Releases a key, whatever it is doing. The lease is the releaser's time to tell the shards. False: it was released
    /// before, or is not there.
    fn release_entry(
        conn: &mut Self::Conn,
        key: &str,
        lease: Duration,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Releases a key that nobody has used, so that nobody will; a key that is there is a unique violation.
    fn block_entry(conn: &mut Self::Conn, key: &str) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Every shard knows: there is no lease, and nothing to recover. Untouched, if the key stands elsewhere by now.
    fn settle_entry(
        conn: &mut Self::Conn,
        key: &str,
        attempt: i64,
        status: Status,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Keys whose lease is over, the oldest first.
    fn overdue_entries(conn: &mut Self::Conn, limit: i64) -> impl Future<Output = sqlx::Result<Vec<String>>> + Send;

    /// Keys that have held stock for longer than a lease, the oldest first.
    fn overdue_reservations(
        conn: &mut Self::Conn,
        lease: Duration,
        limit: i64,
    ) -> impl Future<Output = sqlx::Result<Vec<String>>> + Send;

    /// What is there; None: nobody has ever put anything in.
    fn find_stock(
        conn: &mut Self::Conn,
        product_id: &str,
        sku_id: &str,
    ) -> impl Future<Output = sqlx::Result<Option<Stock>>> + Send;

    /// The same, and nobody else changes it until this transaction ends.
    fn lock_stock(
        conn: &mut Self::Conn,
        product_id: &str,
        sku_id: &str,
    ) -> impl Future<Output = sqlx::Result<Option<Stock>>> + Send;

    /// A product with nothing of it; one that is there is a unique violation.
    fn add_product(
        conn: &mut Self::Conn,
        product_id: &str,
        sku_id: &str,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Puts so many in, or takes them out, and keeps a record of it for the auditor.
    fn put_in(
        conn: &mut Self::Conn,
        product_id: &str,
        sku_id: &str,
        change: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Moves so many of an item. False: there are not so many, or there is no such item.
    fn move_stock(
        conn: &mut Self::Conn,
        item: &Item,
        movement: Move,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// What a key holds or has deducted here, locked.
    fn lock_reservations(
        conn: &mut Self::Conn,
        key: &str,
    ) -> impl Future<Output = sqlx::Result<Vec<Reservation>>> + Send;

    /// Writes down what an attempt holds.
    fn add_reservation(
        conn: &mut Self::Conn,
        key: &str,
        attempt: i64,
        item: &Item,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Held until now, deducted from now on.
    fn deduct_reservation(
        conn: &mut Self::Conn,
        key: &str,
        reservation: &Reservation,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Forgets it.
    fn remove_reservation(
        conn: &mut Self::Conn,
        key: &str,
        reservation: &Reservation,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;
}
