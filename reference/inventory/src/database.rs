//! The tables of one shard and the statements on them. Everything runs in the caller's transaction.
//!
//! The SQL texts differ per database (`database/statements.rs`); another database needs another set.

mod mysql;
mod postgres;
mod question_marks;
mod sqlite;
mod statements;

use std::future::Future;
use std::ops::DerefMut;
use std::time::Duration;

use postrider::prelude::*;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use sqlx::Sqlite;
use sqlx::pool::PoolConnection;

use crate::batch::{Batch, Item};
use crate::entry::{Entry, Status};
use crate::error::Error;

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    #[value(name = "mysql", alias = "mariadb")]
    MySql,
}

impl Dialect {
    /// The SQL that creates the log of deductions, for people who create tables by hand. It can be repeated.
    pub fn log_table(self) -> &'static str {
        match self {
            Self::Sqlite => sqlite::LOG,
            Self::Postgres => postgres::LOG,
            Self::MySql => mysql::LOG,
        }
    }
}

/// The stock of one SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stock {
    /// Available for sale.
    pub stock: i64,
    /// Held for deductions in progress.
    pub reserved: i64,
}

/// What an attempt has reserved or deducted of one SKU.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// The attempt of the key.
    pub attempt: i64,
    /// The SKU and the quantity.
    pub item: Item,
    /// False while it is only reserved.
    pub is_deducted: bool,
}

/// A movement of stock. No number may become negative; a CHECK constraint refuses it as well.
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

/// A store with a read that does not wait for writers: on SQLite, [`begin`](postrider::Enlist::begin) takes the only write lock.
pub trait Read: Keys {
    /// A connection for reading.
    type Reader: DerefMut<Target = Self::Conn> + Send;

    /// Sees committed data. Must not write.
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

/// A store whose database also contains the tables of a shard. A returned
/// `true` means that exactly the intended row was changed.
pub trait Database: Read {
    /// Creates missing tables.
    fn make_tables(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// The shard number and the number of shards of this database. Returns `None` if it has none yet.
    fn find_place(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<Option<(i64, i64)>>> + Send;

    /// Stores the shard number, which never changes afterwards.
    fn take_place(conn: &mut Self::Conn, number: i64, shards: i64) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// The row of a key. Returns `None` if the key was never used.
    fn find_entry(conn: &mut Self::Conn, key: &str) -> impl Future<Output = Result<Option<Entry>, Error>> + Send;

    /// Inserts the first attempt of a key. An existing key is a unique violation.
    fn begin_entry(
        conn: &mut Self::Conn,
        key: &str,
        batch: &Batch,
        lease: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Begins the attempt after `after`, with a new lease. Returns false if another process has done so: the single
    /// statement is guarded by the attempt number.
    fn retry_entry(
        conn: &mut Self::Conn,
        key: &str,
        after: i64,
        lease: Duration,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Ends an attempt. Returns false if the key has a newer attempt or this one has ended.
    fn end_entry(
        conn: &mut Self::Conn,
        key: &str,
        attempt: i64,
        status: Status,
        error: Option<&str>,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Releases a key in any status. The lease covers the time to update the shards. Returns false if the key is
    /// already released or unknown.
    fn release_entry(
        conn: &mut Self::Conn,
        key: &str,
        lease: Duration,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Inserts an unused key as released, so that it can never deduct. An existing key is a unique violation.
    fn block_entry(conn: &mut Self::Conn, key: &str) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Removes the lease after every shard is updated. Changes nothing if the key has another attempt or status by now.
    fn settle_entry(
        conn: &mut Self::Conn,
        key: &str,
        attempt: i64,
        status: Status,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Keys with an expired lease, the oldest first.
    fn overdue_entries(conn: &mut Self::Conn, limit: i64) -> impl Future<Output = sqlx::Result<Vec<String>>> + Send;

    /// Keys with reservations older than a lease, the oldest first.
    fn overdue_reservations(
        conn: &mut Self::Conn,
        lease: Duration,
        limit: i64,
    ) -> impl Future<Output = sqlx::Result<Vec<String>>> + Send;

    /// The stock of a SKU. Returns `None` if it was never put in.
    fn find_stock(
        conn: &mut Self::Conn,
        product_id: &str,
        sku_id: &str,
    ) -> impl Future<Output = sqlx::Result<Option<Stock>>> + Send;

    /// The same, with the row locked until the transaction ends.
    fn lock_stock(
        conn: &mut Self::Conn,
        product_id: &str,
        sku_id: &str,
    ) -> impl Future<Output = sqlx::Result<Option<Stock>>> + Send;

    /// Inserts a SKU with no stock. An existing one is a unique violation.
    fn add_product(
        conn: &mut Self::Conn,
        product_id: &str,
        sku_id: &str,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Adds `change` to the stock, and records it for the auditor.
    fn put_in(
        conn: &mut Self::Conn,
        product_id: &str,
        sku_id: &str,
        change: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Moves the quantity of an item. Returns false if there is not enough, or no such item.
    fn move_stock(
        conn: &mut Self::Conn,
        item: &Item,
        movement: Move,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// The reservations of a key in this shard, locked.
    fn lock_reservations(
        conn: &mut Self::Conn,
        key: &str,
    ) -> impl Future<Output = sqlx::Result<Vec<Reservation>>> + Send;

    /// Records what an attempt has reserved.
    fn add_reservation(
        conn: &mut Self::Conn,
        key: &str,
        attempt: i64,
        item: &Item,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Marks a reservation as deducted.
    fn deduct_reservation(
        conn: &mut Self::Conn,
        key: &str,
        reservation: &Reservation,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Deletes a reservation.
    fn remove_reservation(
        conn: &mut Self::Conn,
        key: &str,
        reservation: &Reservation,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;
}
