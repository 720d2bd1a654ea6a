//! Runs the SQL texts of a database. Placeholders are bound in the order in
//! which they appear, so that `?` works as well as `$1`.

use std::time::Duration;

use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;

use super::{Database, Move, Reservation, Stock};
use crate::batch::{Batch, Item};
use crate::entry::{Entry, Status};
use crate::error::Error;

/// The SQL texts of one database.
pub(super) struct Statements {
    pub(super) tables: &'static str,
    pub(super) find_place: &'static str,
    pub(super) take_place: &'static str,
    pub(super) find_entry: &'static str,
    pub(super) begin_entry: &'static str,
    pub(super) retry_entry: &'static str,
    pub(super) end_entry: &'static str,
    pub(super) release_entry: &'static str,
    pub(super) block_entry: &'static str,
    pub(super) settle_entry: &'static str,
    pub(super) overdue_entries: &'static str,
    pub(super) overdue_reservations: &'static str,
    pub(super) find_stock: &'static str,
    pub(super) lock_stock: &'static str,
    pub(super) add_product: &'static str,
    pub(super) put_in: &'static str,
    pub(super) record_intake: &'static str,
    pub(super) hold: &'static str,
    pub(super) deduct: &'static str,
    pub(super) let_go: &'static str,
    pub(super) take_back: &'static str,
    pub(super) lock_reservations: &'static str,
    pub(super) add_reservation: &'static str,
    pub(super) deduct_reservation: &'static str,
    pub(super) remove_reservation: &'static str,
}

fn millis(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX)
}

/// A list, as the log stores it.
fn list<T: serde::Serialize>(values: &[T]) -> Result<String, Error> {
    serde_json::to_string(values).map_err(|e| postrider::Error::Encode(e).into())
}

type EntryRow = (String, i64, Option<Vec<u8>>, Option<String>, bool);

fn entry((status, attempt, fingerprint, product_ids, lease_is_over): EntryRow) -> Result<Entry, Error> {
    let product_ids = match product_ids {
        Some(list) => serde_json::from_str(&list)
            .map_err(|e| Error::Corrupt(format!("the products in the log are not a list: {e}")))?,
        None => Vec::new(),
    };
    Ok(Entry { status: Status::parse(&status)?, attempt, fingerprint, product_ids, lease_is_over })
}

fn reservation((attempt, product_id, sku_id, quantity, status): (i64, String, String, i64, String)) -> Reservation {
    Reservation { attempt, item: Item { product_id, sku_id, quantity }, is_deducted: status == "DEDUCTED" }
}

// A macro, because the drivers share no type that runs a statement with its values.
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

database!(SqliteStore, super::sqlite::STATEMENTS);
database!(PostgresStore, super::postgres::STATEMENTS);
database!(MySqlStore, super::mysql::STATEMENTS);
