//! PostgreSQL. Each case has its own database, copied from a migrated template.

use std::error::Error as StdError;
use std::process::Command;
use std::sync::{Arc, Mutex};

use postrider::outbox::Dialect;
use postrider::prelude::*;
use postrider::store::postgres::{self, PostgresStore};
use postrider_conformance::{Features, Harness};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use time::macros::{format_description, offset};
use time::{OffsetDateTime, UtcOffset};

const EAST: UtcOffset = offset!(+8);
/// Held while the template is created, so that parallel test processes create only one.
const TEMPLATE_LOCK: i64 = 0x706f_7374_7269_6465;
const SUITE_TABLES: &str = "
    CREATE TABLE suite_counter (name text PRIMARY KEY, n bigint NOT NULL);
    CREATE TABLE suite_log (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL, sequence bigint NOT NULL);
";

#[derive(Clone)]
pub(crate) struct Postgres {
    store: PostgresStore,
    server: String,
    /// The databases to drop after the case; the first is the case's own.
    databases: Arc<Mutex<Vec<String>>>,
}

impl Postgres {
    pub(crate) async fn fresh() -> Self {
        let server = std::env::var("POSTRIDER_TEST_POSTGRES").unwrap_or_else(|_| {
            panic!("POSTRIDER_TEST_POSTGRES is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
        });
        let template = template(&server).await;
        let name = format!("case_{}", uuid::Uuid::new_v4().simple());
        execute(&server, format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        let store = connect(&with_database(&server, &name)).await;
        Self { store, server, databases: Arc::new(Mutex::new(vec![name])) }
    }

    /// A database with the contents of a dump.
    pub(crate) async fn restored(dump: &str) -> Self {
        let server = std::env::var("POSTRIDER_TEST_POSTGRES").expect("POSTRIDER_TEST_POSTGRES is set");
        let name = format!("case_{}", uuid::Uuid::new_v4().simple());
        execute(&server, format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let url = with_database(&server, &name);
        execute(&url, dump.into()).await;
        let store = connect(&url).await;
        Self { store, server, databases: Arc::new(Mutex::new(vec![name])) }
    }

    async fn begin(&self) -> <PostgresStore as Enlist>::Tx {
        self.store.begin().await.expect("a transaction")
    }

    async fn commit(&self, tx: <PostgresStore as Enlist>::Tx) {
        self.store.commit(tx).await.expect("a commit");
    }
}

async fn connect(url: &str) -> PostgresStore {
    PostgresStore::connect(url).await.expect("the database answers")
}

async fn execute(url: &str, sql: String) {
    let mut conn = PgConnection::connect(url).await.expect("the server answers");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect("the server obeys");
    conn.close().await.expect("the connection ends");
}

/// Returns the migrated template. Its name contains a hash of the migrations, so it is created once per schema.
async fn template(server: &str) -> String {
    let text = postgres::migrations(0) + SUITE_TABLES;
    let fold = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let name = format!("suite_template_{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, fold));

    let mut conn = PgConnection::connect(server).await.expect("the server answers");
    let lock = sqlx::query("SELECT pg_advisory_lock($1)").bind(TEMPLATE_LOCK);
    lock.execute(&mut conn).await.expect("the lock is had");
    let known = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)").bind(&name);
    let known: bool = known.fetch_one(&mut conn).await.expect("an answer");
    if !known {
        // Created under another name and renamed at the end, so that an interrupted run leaves no incomplete template.
        let aside = format!("{name}_new");
        let sql = format!("DROP DATABASE IF EXISTS {aside} WITH (FORCE)");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect("dropped");
        let sql = format!("CREATE DATABASE {aside} TEMPLATE template0");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect("created");
        let url = with_database(server, &aside);
        connect(&url).await.migrate().await.expect("an empty database is migrated");
        execute(&url, SUITE_TABLES.into()).await;
        // A template must have no sessions, and the store's pool closes its own only later.
        let sql = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{aside}'");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect("ended");
        let sql = format!("ALTER DATABASE {aside} RENAME TO {name}");
        // PostgreSQL itself waits up to five seconds for sessions that are ending.
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect("renamed");
    }
    conn.close().await.expect("the lock goes with its connection");
    name
}

/// The server's URL with another database name.
fn with_database(url: &str, database: &str) -> String {
    let (place, options) = match url.split_once('?') {
        Some((place, options)) => (place, format!("?{options}")),
        None => (url, String::new()),
    };
    let (server, _) = place.rsplit_once('/').expect("the URL names a database");
    format!("{server}/{database}{options}")
}

impl Harness for Postgres {
    type Store = PostgresStore;

    fn features(&self) -> Features {
        Features { concurrent_transactions: true, connections: 8 }
    }

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    async fn make_counter(&self, name: &str) {
        let mut tx = self.begin().await;
        let query = sqlx::query("INSERT INTO suite_counter (name, n) VALUES ($1, 0)").bind(name);
        query.execute(&mut *tx).await.expect("a new counter");
        self.commit(tx).await;
    }

    async fn add(&self, conn: &mut PgConnection, counter: &str) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let query = sqlx::query("UPDATE suite_counter SET n = n + 1 WHERE name = $1").bind(counter);
        match query.execute(conn).await?.rows_affected() {
            1 => Ok(()),
            _ => Err(format!("there is no counter {counter}").into()),
        }
    }

    async fn counter(&self, name: &str) -> i64 {
        let mut tx = self.begin().await;
        let query = sqlx::query_scalar("SELECT n FROM suite_counter WHERE name = $1").bind(name);
        query.fetch_one(&mut *tx).await.expect("the counter was made")
    }

    async fn write_down(&self, conn: &mut PgConnection, key: &str, sequence: i64) {
        let query = sqlx::query("INSERT INTO suite_log (key, sequence) VALUES ($1, $2)");
        let query = query.bind(key).bind(sequence);
        query.execute(conn).await.expect("it is written down");
    }

    async fn written_down(&self) -> Vec<(String, i64)> {
        let mut tx = self.begin().await;
        let query = sqlx::query_as("SELECT key, sequence FROM suite_log ORDER BY id");
        query.fetch_all(&mut *tx).await.expect("the log")
    }

    async fn insert_plainly(&self, conn: &mut PgConnection, event_id: &str, topic: &str, payload: &str) {
        let query = sqlx::query("INSERT INTO postrider_event (event_id, topic, payload) VALUES ($1, $2, $3)");
        let query = query.bind(event_id).bind(topic).bind(payload);
        query.execute(conn).await.expect("a plain insert");
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Postgres)
    }

    async fn bare_connection(&self) -> Box<PgConnection> {
        let url = with_database(&self.server, &self.databases.lock().unwrap()[0].clone());
        Box::new(PgConnection::connect(&url).await.expect("the server answers"))
    }

    async fn execute(&self, conn: &mut PgConnection, sql: &str, values: &[String]) {
        let query = values.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, value| query.bind(value));
        query.execute(conn).await.expect("the statement runs");
    }

    async fn texts(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        let mut tx = self.store.begin().await.expect("a transaction");
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *tx).await.expect("the rows are read");
        let text = |row: &sqlx::postgres::PgRow, at| row.try_get_unchecked(at).expect("a text");
        rows.iter().map(|row| (0..row.len()).map(|at| text(row, at)).collect()).collect()
    }

    async fn swallow_a_database_error(&self, conn: &mut PgConnection) {
        let query = sqlx::query("INSERT INTO suite_counter (name, n) VALUES (NULL, 0)");
        query.execute(conn).await.expect_err("a name is needed");
    }

    async fn shell_insert(&self, sql: &str) -> Option<()> {
        let database = self.databases.lock().unwrap()[0].clone();
        let output = Command::new("psql")
            .arg(with_database(&self.server, &database))
            .args(["--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--command", sql])
            .env("TZ", "Asia/Shanghai")
            .env("PGTZ", "Asia/Shanghai")
            .output()
            .expect("psql is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(())
    }

    fn sql_time(&self, at: OffsetDateTime) -> String {
        let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
        // Without an offset, as a user writes it: the session's time zone applies.
        format!("'{}'", at.to_offset(EAST).format(format).expect("a time"))
    }

    async fn hold_locks(&self, lane: &str, deliveries: u32) -> Option<<PostgresStore as Enlist>::Tx> {
        let mut tx = self.begin().await;
        let query =
            sqlx::query("SELECT id FROM postrider_delivery WHERE lane = $1 ORDER BY due_at, id LIMIT $2 FOR UPDATE");
        let query = query.bind(lane).bind(i64::from(deliveries));
        query.execute(&mut *tx).await.expect("the locks are had");
        Some(tx)
    }

    async fn unmigrated(&self, instances: usize) -> Vec<PostgresStore> {
        let name = format!("case_{}", uuid::Uuid::new_v4().simple());
        execute(&self.server, format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let url = with_database(&self.server, &name);
        self.databases.lock().unwrap().push(name);
        let mut stores = Vec::new();
        for _ in 0..instances {
            stores.push(connect(&url).await);
        }
        stores
    }

    async fn finish(self) {
        let databases = std::mem::take(&mut *self.databases.lock().unwrap());
        for name in databases {
            execute(&self.server, format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
    }
}

postrider_conformance::suite!(Postgres::fresh().await);
