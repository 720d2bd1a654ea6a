//! A database for each test, and the auditor: plain SQL that shares no code with the workers.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use postrider::prelude::*;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use postrider::testing::Age;
use postrider_proof::proxy::Proxy;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, MySqlPool, PgConnection, PgPool, SqlitePool};

/// The time limit of a wait. Only a failing test waits this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Whether this is `make soak`, where tests are as large as they can be.
pub(crate) fn soak() -> bool {
    std::env::var_os("POSTRIDER_SOAK").is_some()
}

/// Older than any lease of the workers.
pub(crate) const PAST_ANY_LEASE: Duration = Duration::from_secs(60);

const SQLITE_TABLES: &str = "
    CREATE TABLE counter (name TEXT PRIMARY KEY NOT NULL, n INTEGER NOT NULL);
    CREATE TABLE effect_log (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, worker INTEGER NOT NULL);
";
const POSTGRES_TABLES: &str = "
    CREATE TABLE counter (name text PRIMARY KEY, n bigint NOT NULL);
    CREATE TABLE effect_log (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, worker bigint NOT NULL);
";
const MYSQL_TABLES: &str = "
    CREATE TABLE counter (name VARCHAR(64) PRIMARY KEY, n BIGINT NOT NULL);
    CREATE TABLE effect_log (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(64) NOT NULL, worker BIGINT NOT NULL);
";
/// Subscribes the workers' consumer before the first event.
const SUBSCRIBED: &str =
    "INSERT INTO postrider_subscription (topic, consumer, via) VALUES ('work.done', 'count', 'local')";

pub(crate) struct Database {
    url: String,
    auditor: Auditor,
}

enum Auditor {
    Sqlite { pool: SqlitePool, store: SqliteStore, folder: std::path::PathBuf },
    Postgres { pool: PgPool, store: PostgresStore, server: String, name: String },
    MySql { pool: MySqlPool, store: MySqlStore, server: String, name: String },
}

/// Runs each case over each store: `crash::postgres::…` needs the server, `crash::sqlite::…` does not.
macro_rules! over_each_store {
    ($($(#[$doc:meta])* $case:ident,)*) => {
        $crate::database::over! { sqlite: $($(#[$doc])* $case,)* }
        $crate::database::over_each_server! { $($(#[$doc])* $case,)* }
    };
}
/// The same for the stores that have a server.
macro_rules! over_each_server {
    ($($(#[$doc:meta])* $case:ident,)*) => {
        $crate::database::over! { postgres: $($(#[$doc])* $case,)* }
        $crate::database::over! { mysql: $($(#[$doc])* $case,)* }
    };
}
/// Runs each case over each store, with the store's type: the case has consumers of its own, in this process.
macro_rules! over_each_typed_store {
    ($($(#[$doc:meta])* $case:ident,)*) => {
        $crate::database::over_typed! { sqlite postrider::store::sqlite::SqliteStore: $($(#[$doc])* $case,)* }
        $crate::database::over_each_typed_server! { $($(#[$doc])* $case,)* }
    };
}
macro_rules! over_each_typed_server {
    ($($(#[$doc:meta])* $case:ident,)*) => {
        $crate::database::over_typed! { postgres postrider::store::postgres::PostgresStore: $($(#[$doc])* $case,)* }
        $crate::database::over_typed! { mysql postrider::store::mysql::MySqlStore: $($(#[$doc])* $case,)* }
    };
}
macro_rules! over_typed {
    ($store:ident $type:ty: $($(#[$doc:meta])* $case:ident,)*) => {
        mod $store {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let database = $crate::database::Database::$store().await;
                super::$case::<$type>(&database).await;
                database.finish().await;
            })*
        }
    };
}
macro_rules! over {
    ($store:ident: $($(#[$doc:meta])* $case:ident,)*) => {
        mod $store {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let database = $crate::database::Database::$store().await;
                super::$case(&database).await;
                database.finish().await;
            })*
        }
    };
}
pub(crate) use {over, over_each_server, over_each_store, over_each_typed_server, over_each_typed_store, over_typed};

impl Database {
    pub(crate) async fn sqlite() -> Self {
        // In memory where /dev/shm exists. A killed process leaves the same data there as on a disk; only a power
        // failure would differ.
        let shared_memory = std::path::PathBuf::from("/dev/shm");
        let place = if shared_memory.is_dir() { shared_memory } else { std::env::temp_dir() };
        let folder = place.join(format!("postrider-proof-{}", uuid::Uuid::new_v4()));
        let url = format!("sqlite://{}", folder.join("proof.db").display());
        let store = SqliteStore::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let options = url.parse::<sqlx::sqlite::SqliteConnectOptions>().unwrap().busy_timeout(TIMEOUT);
        let pool = SqlitePool::connect_with(options).await.unwrap();
        sqlx::raw_sql(SQLITE_TABLES).execute(&pool).await.unwrap();
        sqlx::raw_sql(SUBSCRIBED).execute(&pool).await.unwrap();
        Self { url, auditor: Auditor::Sqlite { pool, store, folder } }
    }

    pub(crate) async fn postgres() -> Self {
        let server = std::env::var("POSTRIDER_TEST_POSTGRES").unwrap_or_else(|_| {
            panic!("POSTRIDER_TEST_POSTGRES is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
        });
        let name = format!("proof_{}", uuid::Uuid::new_v4().simple());
        on_the_server(&server, format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let (place, _) = server.rsplit_once('/').unwrap();
        let url = format!("{place}/{name}");
        let store = PostgresStore::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let pool = PgPoolOptions::new().max_connections(3).connect(&url).await.unwrap();
        sqlx::raw_sql(POSTGRES_TABLES).execute(&pool).await.unwrap();
        sqlx::raw_sql(SUBSCRIBED).execute(&pool).await.unwrap();
        Self { url, auditor: Auditor::Postgres { pool, store, server, name } }
    }

    pub(crate) async fn mysql() -> Self {
        let server = std::env::var("POSTRIDER_TEST_MYSQL").unwrap_or_else(|_| {
            panic!("POSTRIDER_TEST_MYSQL is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
        });
        let name = format!("proof_{}", uuid::Uuid::new_v4().simple());
        on_mysql(&server, format!("CREATE DATABASE {name}")).await;
        let (place, _) = server.rsplit_once('/').unwrap();
        let url = format!("{place}/{name}");
        let store = MySqlStore::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let pool = MySqlPoolOptions::new().max_connections(3).connect(&url).await.unwrap();
        sqlx::raw_sql(MYSQL_TABLES).execute(&pool).await.unwrap();
        sqlx::raw_sql(SUBSCRIBED).execute(&pool).await.unwrap();
        Self { url, auditor: Auditor::MySql { pool, store, server, name } }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A proxy to the server, and the URL through it.
    pub(crate) async fn proxy(&self) -> (Proxy, String) {
        let place = self.url.split_once("://").unwrap().1.split('/').next().unwrap();
        let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
        let address: SocketAddr = host.to_socket_addrs().unwrap().next().unwrap();
        let proxy = Proxy::to(address).await.unwrap();
        let url = self.url.replace(host, &proxy.address().to_string());
        (proxy, url)
    }

    /// Runs a query that returns one number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match &self.auditor {
            Auditor::Sqlite { pool, .. } => sqlx::query_scalar(sql).fetch_one(pool).await.unwrap(),
            Auditor::Postgres { pool, .. } => sqlx::query_scalar(sql).fetch_one(pool).await.unwrap(),
            Auditor::MySql { pool, .. } => {
                // MySQL casts to SIGNED, not to bigint.
                let sql = AssertSqlSafe(sql.0.replace(" AS bigint)", " AS SIGNED)"));
                sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
            }
        }
    }

    pub(crate) async fn execute(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        match &self.auditor {
            Auditor::Sqlite { pool, .. } => drop(sqlx::raw_sql(sql).execute(pool).await.unwrap()),
            Auditor::Postgres { pool, .. } => drop(sqlx::raw_sql(sql).execute(pool).await.unwrap()),
            Auditor::MySql { pool, .. } => drop(sqlx::raw_sql(sql).execute(pool).await.unwrap()),
        }
    }

    /// Repeats a query until it returns `wanted`. Returns the elapsed time.
    pub(crate) async fn until(&self, sql: &str, wanted: i64) -> Duration {
        let started = Instant::now();
        loop {
            let answer = self.number(sql).await;
            if answer == wanted {
                return started.elapsed();
            }
            assert!(started.elapsed() < TIMEOUT, "{sql}: still {answer}, not {wanted}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until no session but the auditor's has a transaction that began before this call.
    pub(crate) async fn no_transaction_is_open(&self) {
        let open = match &self.auditor {
            // The one writer's lock is free, if it can be taken.
            Auditor::Sqlite { .. } => {
                let locked = self.execute("BEGIN IMMEDIATE; ROLLBACK");
                return tokio::time::timeout(TIMEOUT / 2, locked).await.expect("no transaction is open");
            }
            Auditor::Postgres { .. } => {
                let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
                let began = self.number(now).await;
                format!(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                     AND state LIKE 'idle in transaction%' AND extract(epoch FROM xact_start) * 1000000 < {began}"
                )
            }
            Auditor::MySql { .. } => {
                let open = "SELECT count(*) FROM information_schema.innodb_trx t \
                    JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
                    WHERE p.db = database() AND p.id <> connection_id()";
                let started = Instant::now();
                while self.number(open).await > 0 {
                    assert!(started.elapsed() < TIMEOUT / 2, "a transaction is open");
                    // InnoDB refreshes `innodb_trx` only if it was not read for 0.1 s.
                    tokio::time::sleep(Duration::from_millis(150)).await;
                }
                return;
            }
        };
        self.until(&open, 0).await;
    }

    /// Ages all stored times by `by`.
    pub(crate) async fn age(&self, by: Duration) {
        match &self.auditor {
            Auditor::Sqlite { store, .. } => store.age(by).await.unwrap(),
            Auditor::Postgres { store, .. } => store.age(by).await.unwrap(),
            Auditor::MySql { store, .. } => store.age(by).await.unwrap(),
        }
    }

    /// Gives the workers' consumer another name.
    pub(crate) async fn rename_consumer(&self, to: &str) {
        match &self.auditor {
            Auditor::Sqlite { store, .. } => store.rename_consumer("count", to).await.unwrap(),
            Auditor::Postgres { store, .. } => store.rename_consumer("count", to).await.unwrap(),
            Auditor::MySql { store, .. } => store.rename_consumer("count", to).await.unwrap(),
        };
    }

    /// The state of one event: its row in `postrider_outbox`, its inbox row and its effect.
    pub(crate) async fn event_state(&self, event: &str) -> EventState {
        let events = self.number(&format!("SELECT count(*) FROM postrider_event WHERE event_id = '{event}'")).await;
        let of_status = |status: &str| {
            format!("SELECT count(*) FROM postrider_outbox WHERE event_id = '{event}' AND status = '{status}'")
        };
        let mut status = "none";
        for one in ["NEW", "PROCESSING", "FAILED", "DEAD", "SENT"] {
            if self.number(&of_status(one)).await > 0 {
                status = one;
            }
        }
        let received =
            format!("SELECT count(*) FROM postrider_inbox WHERE consumer = 'count' AND event_id = '{event}'");
        let effects = format!("SELECT CAST(coalesce(sum(n), 0) AS bigint) FROM counter WHERE name = '{event}'");
        EventState { events, status, received: self.number(&received).await, effects: self.number(&effects).await }
    }

    /// Nothing lost, nothing double: `events` events, each with one effect, and no delivery left.
    pub(crate) async fn every_effect_happened_once(&self, events: i64) {
        assert_eq!(self.number("SELECT count(*) FROM postrider_event").await, events, "events");
        assert_eq!(self.number("SELECT count(*) FROM counter").await, events, "business changes");
        assert_eq!(self.number("SELECT count(*) FROM counter WHERE n = 0").await, 0, "lost");
        assert_eq!(self.number("SELECT count(*) FROM counter WHERE n > 1").await, 0, "double");
        assert_eq!(self.number("SELECT count(*) FROM counter WHERE n = 1").await, events, "once");
        assert_eq!(self.number("SELECT count(*) FROM effect_log").await, events, "effects that were written down");
        assert_eq!(self.number("SELECT count(*) FROM postrider_delivery").await, 0, "deliveries left");
    }

    /// Cleans up after a passed test.
    pub(crate) async fn finish(self) {
        match self.auditor {
            Auditor::Sqlite { pool, store, folder } => {
                pool.close().await;
                drop(store);
                std::fs::remove_dir_all(folder).unwrap();
            }
            Auditor::Postgres { pool, server, name, .. } => {
                pool.close().await;
                on_the_server(&server, format!("DROP DATABASE {name} WITH (FORCE)")).await;
            }
            Auditor::MySql { pool, server, name, .. } => {
                pool.close().await;
                on_mysql(&server, format!("DROP DATABASE {name}")).await;
            }
        }
    }
}

/// The state of an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventState {
    pub(crate) events: i64,
    pub(crate) status: &'static str,
    pub(crate) received: i64,
    pub(crate) effects: i64,
}

async fn on_mysql(server: &str, sql: String) {
    let mut conn = MySqlConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

async fn on_the_server(server: &str, sql: String) {
    let mut conn = PgConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}
