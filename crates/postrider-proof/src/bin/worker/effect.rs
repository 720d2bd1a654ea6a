//! The worker's own tables. This is all that differs between databases.

use std::future::Future;

use postrider::Enlist;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use sqlx::{MySqlConnection, PgConnection, SqliteConnection};

/// The business writes of a worker.
pub(crate) trait Effect: Enlist {
    /// The producer's change: inserts a counter with the value 0.
    fn make(conn: &mut Self::Conn, counter: &str) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// The consumer's change: plain statements, so that a repeated effect is visible. The log records the worker.
    fn add(conn: &mut Self::Conn, counter: &str, worker: u32) -> impl Future<Output = sqlx::Result<()>> + Send;
}

macro_rules! effect {
    ($store:ty, $conn:ty, $make:literal, $add:literal, $log:literal) => {
        impl Effect for $store {
            async fn make(conn: &mut $conn, counter: &str) -> sqlx::Result<()> {
                sqlx::query($make).bind(counter).execute(conn).await?;
                Ok(())
            }

            async fn add(conn: &mut $conn, counter: &str, worker: u32) -> sqlx::Result<()> {
                let added = sqlx::query($add).bind(counter).execute(&mut *conn).await?.rows_affected();
                if added != 1 {
                    return Err(sqlx::Error::RowNotFound);
                }
                sqlx::query($log).bind(counter).bind(i64::from(worker)).execute(conn).await?;
                Ok(())
            }
        }
    };
}

effect!(
    SqliteStore,
    SqliteConnection,
    "INSERT INTO counter (name, n) VALUES (?1, 0)",
    "UPDATE counter SET n = n + 1 WHERE name = ?1",
    "INSERT INTO effect_log (name, worker) VALUES (?1, ?2)"
);
effect!(
    PostgresStore,
    PgConnection,
    "INSERT INTO counter (name, n) VALUES ($1, 0)",
    "UPDATE counter SET n = n + 1 WHERE name = $1",
    "INSERT INTO effect_log (name, worker) VALUES ($1, $2)"
);
effect!(
    MySqlStore,
    MySqlConnection,
    "INSERT INTO counter (name, n) VALUES (?, 0)",
    "UPDATE counter SET n = n + 1 WHERE name = ?",
    "INSERT INTO effect_log (name, worker) VALUES (?, ?)"
);
