//! The databases of a run and their content: events of 400 bytes, written through the public API.

use std::path::PathBuf;
use std::sync::Arc;

use postrider::store::History;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use postrider::{Draft, Enlist, Outbox, Store, Subscription, Via};
use sqlx::Connection;
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use uuid::Uuid;

use crate::Outcome;
use crate::drain::drain;

pub(crate) const LANE: &str = "bench";
pub(crate) const TOPIC: &str = "bench.event";

/// A payload of 400 bytes of JSON.
pub(crate) fn payload() -> serde_json::Value {
    serde_json::json!({"orderId": 1_234_567, "amountCents": 9_900, "note": "x".repeat(352)})
}

/// The databases of a run, created for it and dropped after it.
pub(crate) struct Scratch {
    server: String,
    admin: PgPool,
    mysql: String,
    mysql_admin: MySqlPool,
    prefix: String,
    folder: PathBuf,
}

impl Scratch {
    pub(crate) async fn new(server: &str, mysql: &str) -> Outcome<Self> {
        let prefix = format!("bench_{}", Uuid::new_v4().simple());
        let folder = std::env::temp_dir().join(&prefix);
        std::fs::create_dir_all(&folder)?;
        let admin = PgPoolOptions::new().max_connections(1).connect(server).await?;
        let mysql_admin = MySqlPoolOptions::new().max_connections(1).connect(mysql).await?;
        Ok(Self { server: server.into(), admin, mysql: mysql.into(), mysql_admin, prefix, folder })
    }

    /// A new, empty PostgreSQL database.
    pub(crate) async fn postgres(&self, name: &str) -> Outcome<String> {
        let create = format!("CREATE DATABASE {}_{name}", self.prefix);
        sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&self.admin).await?;
        self.url(name)
    }

    /// The URL of a PostgreSQL database created before.
    pub(crate) fn url(&self, name: &str) -> Outcome<String> {
        let (server, _) = self.server.rsplit_once('/').ok_or("the server's URL names no database")?;
        Ok(format!("{server}/{}_{name}", self.prefix))
    }

    /// Vacuums a database, so that the dead rows of earlier turns do not affect the next one.
    pub(crate) async fn vacuum(&self, name: &str) -> Outcome<()> {
        let mut session = PgConnection::connect(&self.url(name)?).await?;
        sqlx::raw_sql("VACUUM").execute(&mut session).await?;
        Ok(session.close().await?)
    }

    /// A store in a new PostgreSQL database, with one consumer.
    pub(crate) async fn postgres_store(&self, name: &str) -> Outcome<PostgresStore> {
        let store = PostgresStore::connect(&self.postgres(name).await?).await?;
        ready(&store).await?;
        Ok(store)
    }

    /// A new, empty MySQL database.
    pub(crate) async fn mysql(&self, name: &str) -> Outcome<String> {
        let create = format!("CREATE DATABASE {}_{name}", self.prefix);
        sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&self.mysql_admin).await?;
        self.mysql_url(name)
    }

    /// The URL of a MySQL database created before.
    pub(crate) fn mysql_url(&self, name: &str) -> Outcome<String> {
        let (server, _) = self.mysql.rsplit_once('/').ok_or("the server's URL names no database")?;
        Ok(format!("{server}/{}_{name}", self.prefix))
    }

    /// A store in a new MySQL database, with one consumer.
    pub(crate) async fn mysql_store(&self, name: &str) -> Outcome<MySqlStore> {
        let store = MySqlStore::connect(&self.mysql(name).await?).await?;
        ready(&store).await?;
        Ok(store)
    }

    pub(crate) fn sqlite(&self, name: &str) -> String {
        format!("sqlite://{}", self.folder.join(format!("{name}.db")).display())
    }

    /// A store in a new SQLite file, with one consumer.
    pub(crate) async fn sqlite_store(&self, name: &str) -> Outcome<SqliteStore> {
        let store = SqliteStore::connect(&self.sqlite(name)).await?;
        ready(&store).await?;
        Ok(store)
    }

    pub(crate) async fn remove(self) -> Outcome<()> {
        let databases: Vec<String> = sqlx::query_scalar("SELECT datname FROM pg_database WHERE datname LIKE $1 || '%'")
            .bind(&self.prefix)
            .fetch_all(&self.admin)
            .await?;
        for database in databases {
            sqlx::raw_sql(sqlx::AssertSqlSafe(format!("DROP DATABASE {database} WITH (FORCE)")))
                .execute(&self.admin)
                .await?;
        }
        let databases: Vec<String> = sqlx::query_scalar(
            "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE concat(?, '%')",
        )
        .bind(&self.prefix)
        .fetch_all(&self.mysql_admin)
        .await?;
        for database in databases {
            sqlx::raw_sql(sqlx::AssertSqlSafe(format!("DROP DATABASE {database}"))).execute(&self.mysql_admin).await?;
        }
        std::fs::remove_dir_all(&self.folder)?;
        Ok(())
    }
}

async fn ready(store: &impl Store) -> Outcome<()> {
    store.migrate().await?;
    Ok(store.register(&Subscription::new(TOPIC, LANE, Via::Local)).await?)
}

/// Writes events. Their keys cycle through `keys` values; with 0 they have none.
pub(crate) async fn fill<S: Enlist>(store: &S, events: usize, keys: usize) -> Outcome<()> {
    let outbox = Outbox::new(store.clone()).service("bench");
    let payload = payload();
    let mut written = 0;
    while written < events {
        let batch = (events - written).min(1_000);
        let drafts = (written..written + batch)
            .map(|n| {
                let draft = Draft::json(TOPIC, &payload)?;
                Ok(if keys == 0 { draft } else { draft.key(format!("key-{}", n % keys)) })
            })
            .collect::<postrider::Result<Vec<_>>>()?;
        let mut tx = store.begin().await?;
        outbox.enqueue_many(&mut tx, drafts).await?;
        store.commit(tx).await?;
        written += batch;
    }
    Ok(())
}

/// Fills two stores alternately, because the one filled last would have more of its pages in the server's cache.
pub(crate) async fn fill_both<S: Enlist>(one: &S, other: &S, events: usize) -> Outcome<()> {
    let mut left = events;
    while left > 0 {
        let batch = left.min(1_000);
        fill(one, batch, 0).await?;
        fill(other, batch, 0).await?;
        left -= batch;
    }
    Ok(())
}

/// Writes and delivers events, so that they are stored as finished.
pub(crate) async fn fill_finished<S: Enlist>(store: &S, events: usize) -> Outcome<()> {
    let mut left = events;
    while left > 0 {
        let batch = left.min(50_000);
        fill(store, batch, 0).await?;
        let drained = drain(Arc::new(store.clone()), 1, batch, History::Omit).await?.events;
        assert_eq!(drained, batch);
        left -= batch;
    }
    Ok(())
}
