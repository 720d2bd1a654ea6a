//! The tables of one shard, and every statement on them. Everything happens in the caller's transaction.
//!
//! What differs from database to database is text: `Statements`, whose placeholders all stand in the order of the values.
//! Another database is another set of them.

mod postgres;
mod sqlite;

use std::future::Future;
use std::ops::DerefMut;
use std::time::Duration;

use postrider::Enlist;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use sqlx::Sqlite;
use sqlx::pool::PoolConnection;

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

/// The statements in the words of one database.
struct Statements {
    tables: &'static str,
    find_place: &'static str,
    take_place: &'static str,
    find_entry: &'static str,
    begin_entry: &'static str,
    retry_entry: &'static str,
    end_entry: &'static str,
    release_entry: &'static str,
    block_entry: &'static str,
    settle_entry: &'static str,
    overdue_entries: &'static str,
    overdue_reservations: &'static str,
    find_stock: &'static str,
    lock_stock: &'static str,
    add_product: &'static str,
    put_in: &'static str,
    record_intake: &'static str,
    hold: &'static str,
    deduct: &'static str,
    let_go: &'static str,
    take_back: &'static str,
    lock_reservations: &'static str,
    add_reservation: &'static str,
    deduct_reservation: &'static str,
    remove_reservation: &'static str,
}

fn millis(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX)
}

/// A list as the log keeps it.
fn list<T: serde::Serialize>(values: &[T]) -> Result<String, Error> {
    serde_json::to_string(values).map_err(|e| postrider::Error::Encode(e).into())
}

type EntryRow = (String, i64, Option<Vec<u8>>, Option<String>, bool);

fn entry((status, attempt, fingerprint, product_ids, lease_is_over): EntryRow) -> Result<Entry, Error> {
    let product_ids = match product_ids {
        Some(list) => serde_json::from_str(&list)
            .map_err(|e| Error::Corrupt(format!("the log holds products that are no list: {e}")))?,
        None => Vec::new(),
    };
    Ok(Entry { status: Status::parse(&status)?, attempt, fingerprint, product_ids, lease_is_over })
}

fn reservation((attempt, product_id, sku_id, quantity, status): (i64, String, String, i64, String)) -> Reservation {
    Reservation { attempt, item: Item { product_id, sku_id, quantity }, is_deducted: status == "DEDUCTED" }
}

// A macro, because the drivers have no common type that could run one text with its values.
macro_rules! database {
    ($store:ty, $sql:expr) => {
        impl Database for $store {
            async fn make_tables(conn: &mut Self::Conn) -> sqlx::Result<()> {
                sqlx::raw_sql($sql.tables).execute(conn).await?;
                Ok(())
            }

            async fn find_place(conn: &mut Self::Conn) -> sqlx::Result<Option<(i64, i64)>> {
                sqlx::query_as($sql.find_place).fetch_optional(conn).await
            }

            async fn take_place(conn: &mut Self::Conn, number: i64, shards: i64) -> sqlx::Result<()> {
                sqlx::query($sql.take_place).bind(number).bind(shards).execute(conn).await?;
                Ok(())
            }

            async fn find_entry(conn: &mut Self::Conn, key: &str) -> Result<Option<Entry>, Error> {
                let row: Option<EntryRow> = sqlx::query_as($sql.find_entry).bind(key).fetch_optional(conn).await?;
                row.map(entry).transpose()
            }

            async fn begin_entry(
                conn: &mut Self::Conn,
                key: &str,
                batch: &Batch,
                lease: Duration,
            ) -> Result<(), Error> {
                let insert = sqlx::query($sql.begin_entry)
                    .bind(key)
                    .bind(&batch.order_id)
                    .bind(list(&batch.product_ids)?)
                    .bind(list(&batch.sku_ids)?)
                    .bind(list(&batch.quantities)?)
                    .bind(batch.fingerprint()?)
                    .bind(millis(lease));
                insert.execute(conn).await?;
                Ok(())
            }

            async fn retry_entry(conn: &mut Self::Conn, key: &str, after: i64, lease: Duration) -> sqlx::Result<bool> {
                let update = sqlx::query($sql.retry_entry).bind(millis(lease)).bind(key).bind(after);
                Ok(update.execute(conn).await?.rows_affected() == 1)
            }

            async fn end_entry(
                conn: &mut Self::Conn,
                key: &str,
                attempt: i64,
                status: Status,
                error: Option<&str>,
            ) -> sqlx::Result<bool> {
                let update = sqlx::query($sql.end_entry)
                    .bind(status.as_str())
                    .bind(error.map(postrider::limits::error_text))
                    .bind(key)
                    .bind(attempt);
                Ok(update.execute(conn).await?.rows_affected() == 1)
            }

            async fn release_entry(conn: &mut Self::Conn, key: &str, lease: Duration) -> sqlx::Result<bool> {
                let update = sqlx::query($sql.release_entry).bind(millis(lease)).bind(key);
                Ok(update.execute(conn).await?.rows_affected() == 1)
            }

            async fn block_entry(conn: &mut Self::Conn, key: &str) -> sqlx::Result<()> {
                sqlx::query($sql.block_entry).bind(key).execute(conn).await?;
                Ok(())
            }

            async fn settle_entry(
                conn: &mut Self::Conn,
                key: &str,
                attempt: i64,
                status: Status,
            ) -> sqlx::Result<bool> {
                let update = sqlx::query($sql.settle_entry).bind(key).bind(attempt).bind(status.as_str());
                Ok(update.execute(conn).await?.rows_affected() == 1)
            }

            async fn overdue_entries(conn: &mut Self::Conn, limit: i64) -> sqlx::Result<Vec<String>> {
                sqlx::query_scalar($sql.overdue_entries).bind(limit).fetch_all(conn).await
            }

            async fn overdue_reservations(
                conn: &mut Self::Conn,
                lease: Duration,
                limit: i64,
            ) -> sqlx::Result<Vec<String>> {
                sqlx::query_scalar($sql.overdue_reservations).bind(millis(lease)).bind(limit).fetch_all(conn).await
            }

            async fn find_stock(conn: &mut Self::Conn, product_id: &str, sku_id: &str) -> sqlx::Result<Option<Stock>> {
                let row = sqlx::query_as($sql.find_stock).bind(product_id).bind(sku_id).fetch_optional(conn).await?;
                Ok(row.map(|(stock, reserved)| Stock { stock, reserved }))
            }

            async fn lock_stock(conn: &mut Self::Conn, product_id: &str, sku_id: &str) -> sqlx::Result<Option<Stock>> {
                let row = sqlx::query_as($sql.lock_stock).bind(product_id).bind(sku_id).fetch_optional(conn).await?;
                Ok(row.map(|(stock, reserved)| Stock { stock, reserved }))
            }

            async fn add_product(conn: &mut Self::Conn, product_id: &str, sku_id: &str) -> sqlx::Result<()> {
                sqlx::query($sql.add_product).bind(product_id).bind(sku_id).execute(conn).await?;
                Ok(())
            }

            async fn put_in(conn: &mut Self::Conn, product_id: &str, sku_id: &str, change: i64) -> sqlx::Result<bool> {
                let record = sqlx::query($sql.record_intake).bind(product_id).bind(sku_id).bind(change);
                record.execute(&mut *conn).await?;
                let update = sqlx::query($sql.put_in).bind(change).bind(product_id).bind(sku_id);
                Ok(update.execute(conn).await?.rows_affected() == 1)
            }

            async fn move_stock(conn: &mut Self::Conn, item: &Item, movement: Move) -> sqlx::Result<bool> {
                let Item { product_id, sku_id, quantity } = item;
                let update = match movement {
                    Move::Hold => sqlx::query($sql.hold).bind(quantity).bind(quantity),
                    Move::Deduct => sqlx::query($sql.deduct).bind(quantity),
                    Move::LetGo => sqlx::query($sql.let_go).bind(quantity).bind(quantity),
                    Move::Return => sqlx::query($sql.take_back).bind(quantity),
                };
                let update = update.bind(product_id).bind(sku_id);
                let update = match movement {
                    Move::Hold | Move::Deduct | Move::LetGo => update.bind(quantity),
                    Move::Return => update,
                };
                Ok(update.execute(conn).await?.rows_affected() == 1)
            }

            async fn lock_reservations(conn: &mut Self::Conn, key: &str) -> sqlx::Result<Vec<Reservation>> {
                let rows = sqlx::query_as($sql.lock_reservations).bind(key).fetch_all(conn).await?;
                Ok(rows.into_iter().map(reservation).collect())
            }

            async fn add_reservation(conn: &mut Self::Conn, key: &str, attempt: i64, item: &Item) -> sqlx::Result<()> {
                let Item { product_id, sku_id, quantity } = item;
                let insert = sqlx::query($sql.add_reservation).bind(key).bind(attempt).bind(product_id).bind(sku_id);
                insert.bind(quantity).execute(conn).await?;
                Ok(())
            }

            async fn deduct_reservation(
                conn: &mut Self::Conn,
                key: &str,
                Reservation { attempt, item, .. }: &Reservation,
            ) -> sqlx::Result<bool> {
                let update = sqlx::query($sql.deduct_reservation).bind(key).bind(attempt);
                let update = update.bind(&item.product_id).bind(&item.sku_id);
                Ok(update.execute(conn).await?.rows_affected() == 1)
            }

            async fn remove_reservation(
                conn: &mut Self::Conn,
                key: &str,
                Reservation { attempt, item, .. }: &Reservation,
            ) -> sqlx::Result<bool> {
                let delete = sqlx::query($sql.remove_reservation).bind(key).bind(attempt);
                let delete = delete.bind(&item.product_id).bind(&item.sku_id);
                Ok(delete.execute(conn).await?.rows_affected() == 1)
            }
        }
    };
}

database!(SqliteStore, sqlite::STATEMENTS);
database!(PostgresStore, postgres::STATEMENTS);
