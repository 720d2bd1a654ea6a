//! A database of its own for each test, on each store.

use postrider::outbox::HasDialect;
use postrider::prelude::*;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::{self, PostgresStore};
use postrider::store::sqlite::SqliteStore;
use postrider::testing::Age;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, SqliteConnection};

pub(crate) trait TestDatabase: Sized {
    type Store: Age + Enlist + HasDialect;

    /// An empty, migrated database.
    async fn fresh() -> (Self, Self::Store);

    /// Runs a statement on it.
    async fn execute(&self, sql: &str);

    /// Removes it.
    async fn remove(self);
}

pub(crate) struct Sqlite {
    folder: std::path::PathBuf,
}

impl TestDatabase for Sqlite {
    type Store = SqliteStore;

    async fn fresh() -> (Self, SqliteStore) {
        let folder = std::env::temp_dir().join(format!("postrider-desk-{}", uuid::Uuid::new_v4()));
        let store = SqliteStore::connect(&format!("sqlite://{}", folder.join("desk.db").display())).await.unwrap();
        store.migrate().await.unwrap();
        (Self { folder }, store)
    }

    async fn execute(&self, sql: &str) {
        let file = self.folder.join("desk.db");
        let mut conn = SqliteConnection::connect(&file.display().to_string()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }

    async fn remove(self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// A database of a server, by name.
pub(crate) struct Postgres(String);

impl TestDatabase for Postgres {
    type Store = PostgresStore;

    async fn fresh() -> (Self, PostgresStore) {
        let server = server("POSTRIDER_TEST_POSTGRES");
        let (template, name) = (template(&server).await, fresh_name());
        on_postgres(&server, format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        let store = PostgresStore::connect(&with_database(&server, &name)).await.unwrap();
        (Self(name), store)
    }

    async fn execute(&self, sql: &str) {
        on_postgres(&with_database(&server("POSTRIDER_TEST_POSTGRES"), &self.0), sql.to_owned()).await;
    }

    async fn remove(self) {
        on_postgres(&server("POSTRIDER_TEST_POSTGRES"), format!("DROP DATABASE {} WITH (FORCE)", self.0)).await;
    }
}

/// A database of a server, by name.
pub(crate) struct MySql(String);

impl TestDatabase for MySql {
    type Store = MySqlStore;

    async fn fresh() -> (Self, MySqlStore) {
        let (server, name) = (server("POSTRIDER_TEST_MYSQL"), fresh_name());
        on_mysql(&server, format!("CREATE DATABASE {name}")).await;
        let store = MySqlStore::connect(&with_database(&server, &name)).await.unwrap();
        store.migrate().await.unwrap();
        (Self(name), store)
    }

    async fn execute(&self, sql: &str) {
        on_mysql(&with_database(&server("POSTRIDER_TEST_MYSQL"), &self.0), sql.to_owned()).await;
    }

    async fn remove(self) {
        on_mysql(&server("POSTRIDER_TEST_MYSQL"), format!("DROP DATABASE {}", self.0)).await;
    }
}

fn server(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
    })
}

fn fresh_name() -> String {
    format!("desk_{}", uuid::Uuid::new_v4().simple())
}

/// The server's URL with another database.
fn with_database(url: &str, database: &str) -> String {
    let (place, options) = url.split_once('?').map_or((url, String::new()), |(place, it)| (place, format!("?{it}")));
    let (server, _) = place.rsplit_once('/').unwrap();
    format!("{server}/{database}{options}")
}

async fn on_postgres(url: &str, sql: String) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

async fn on_mysql(url: &str, sql: String) {
    let mut conn = MySqlConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

/// A migrated database to copy, which takes a tenth of the time of migrating one. Its name has a hash of the migrations, so it is
/// made once per schema.
async fn template(server: &str) -> String {
    /// Held while the template is made, so that parallel test processes make one.
    const LOCK: i64 = 0x6465_736b;
    let fold = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let name = format!("desk_template_{:016x}", postgres::migrations(0).bytes().fold(0xcbf2_9ce4_8422_2325, fold));
    let mut conn = PgConnection::connect(server).await.unwrap();
    sqlx::query("SELECT pg_advisory_lock($1)").bind(LOCK).execute(&mut conn).await.unwrap();
    let known = sqlx::query("SELECT 1 FROM pg_database WHERE datname = $1").bind(&name);
    if known.fetch_optional(&mut conn).await.unwrap().is_none() {
        // Under another name until it is complete.
        let aside = format!("{name}_new");
        on_postgres(server, format!("DROP DATABASE IF EXISTS {aside} WITH (FORCE)")).await;
        on_postgres(server, format!("CREATE DATABASE {aside} TEMPLATE template0")).await;
        PostgresStore::connect(&with_database(server, &aside)).await.unwrap().migrate().await.unwrap();
        // A template must have no sessions, and the store's pool closes its own only later.
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{aside}'");
        on_postgres(server, end).await;
        on_postgres(server, format!("ALTER DATABASE {aside} RENAME TO {name}")).await;
    }
    conn.close().await.unwrap();
    name
}
