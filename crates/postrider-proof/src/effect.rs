//! The tables of the worker and of the tests: what differs between databases.

use std::future::Future;

use postrider::Enlist;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use sqlx::{MySqlConnection, PgConnection, SqliteConnection};

/// The business writes of a worker, and of consumers in tests.
pub trait Effect: Enlist {
    /// A store with at most this many connections in each pool. SQLite has one writer, whatever is asked for.
    fn with_connections(url: &str, connections: u32) -> impl Future<Output = postrider::Result<Self>> + Send;

    /// The producer's change: inserts a counter with the value 0.
    fn make(conn: &mut Self::Conn, counter: &str) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// The consumer's change: plain statements, so that a repeated effect is visible. The log records the worker.
    fn add(conn: &mut Self::Conn, counter: &str, worker: u32) -> impl Future<Output = sqlx::Result<()>> + Send;
}

macro_rules! effect {
    ($store:ty, $conn:ty, |$url:ident, $connections:ident| $connect:expr, $make:literal, $add:literal, $log:literal) => {
        impl Effect for $store {
            async fn with_connections($url: &str, $connections: u32) -> postrider::Result<Self> {
                $connect.await
            }

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
    |url, _connections| SqliteStore::connect(url),
    "INSERT INTO counter (name, n) VALUES (?1, 0)",
    "UPDATE counter SET n = n + 1 WHERE name = ?1",
    "INSERT INTO effect_log (name, worker) VALUES (?1, ?2)"
);
effect!(
    PostgresStore,
    PgConnection,
    |url, connections| PostgresStore::connect_with(url, connections),
    "INSERT INTO counter (name, n) VALUES ($1, 0)",
    "UPDATE counter SET n = n + 1 WHERE name = $1",
    "INSERT INTO effect_log (name, worker) VALUES ($1, $2)"
);
effect!(
    MySqlStore,
    MySqlConnection,
    |url, connections| MySqlStore::connect_with(url, connections),
    "INSERT INTO counter (name, n) VALUES (?, 0)",
    "UPDATE counter SET n = n + 1 WHERE name = ?",
    "INSERT INTO effect_log (name, worker) VALUES (?, ?)"
);
