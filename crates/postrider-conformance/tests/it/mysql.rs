//! MySQL or MariaDB, as set in `POSTRIDER_TEST_MYSQL`. Each case has its own database.

use std::error::Error as StdError;
use std::process::Command;
use std::sync::{Arc, Mutex};

use postrider::outbox::Dialect;
use postrider::prelude::*;
use postrider::store::mysql::MySqlStore;
use postrider_conformance::{Features, Harness};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection, Row};
use time::OffsetDateTime;
use time::macros::format_description;

const SUITE_TABLES: &str = "
    CREATE TABLE suite_counter (name VARCHAR(64) PRIMARY KEY, n BIGINT NOT NULL) COLLATE utf8mb4_bin;
    CREATE TABLE suite_log (id BIGINT AUTO_INCREMENT PRIMARY KEY, `key` VARCHAR(256) NOT NULL, sequence BIGINT NOT NULL);
    CREATE TABLE suite_victim (name CHAR(1) PRIMARY KEY, weight BIGINT NOT NULL);
    INSERT INTO suite_victim VALUES ('a', 0), ('b', 0)";

#[derive(Clone)]
pub(crate) struct MySql {
    store: MySqlStore,
    server: String,
    /// The databases to drop after the case; the first is the case's own.
    databases: Arc<Mutex<Vec<String>>>,
}

impl MySql {
    pub(crate) async fn fresh() -> Self {
        let server = std::env::var("POSTRIDER_TEST_MYSQL").unwrap_or_else(|_| {
            panic!("POSTRIDER_TEST_MYSQL is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
        });
        let name = database(&server).await;
        let url = with_database(&server, &name);
        let store = connect(&url).await;
        store.migrate().await.expect("an empty database is migrated");
        execute(&url, SUITE_TABLES.into()).await;
        Self { store, server, databases: Arc::new(Mutex::new(vec![name])) }
    }

    /// A database with the contents of a dump.
    pub(crate) async fn restored(dump: &str) -> Self {
        let server = std::env::var("POSTRIDER_TEST_MYSQL").expect("POSTRIDER_TEST_MYSQL is set");
        let name = database(&server).await;
        let url = with_database(&server, &name);
        execute(&url, dump.into()).await;
        let store = connect(&url).await;
        Self { store, server, databases: Arc::new(Mutex::new(vec![name])) }
    }

    fn url(&self) -> String {
        with_database(&self.server, &self.databases.lock().unwrap()[0])
    }

    async fn begin(&self) -> <MySqlStore as Enlist>::Tx {
        self.store.begin().await.expect("a transaction")
    }

    async fn commit(&self, tx: <MySqlStore as Enlist>::Tx) {
        self.store.commit(tx).await.expect("a commit");
    }
}

async fn connect(url: &str) -> MySqlStore {
    MySqlStore::connect(url).await.expect("the database answers")
}

async fn execute(url: &str, sql: String) {
    let mut conn = MySqlConnection::connect(url).await.expect("the server answers");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect("the server obeys");
    conn.close().await.expect("the connection ends");
}

/// Creates an empty database. Its default character set is latin1, so that a table of ours without an explicit
/// character set fails.
async fn database(server: &str) -> String {
    let name = format!("case_{}", uuid::Uuid::new_v4().simple());
    execute(server, format!("CREATE DATABASE {name} CHARACTER SET latin1")).await;
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

impl Harness for MySql {
    type Store = MySqlStore;

    fn features(&self) -> Features {
        Features { concurrent_transactions: true, connections: 8 }
    }

    fn store(&self) -> &MySqlStore {
        &self.store
    }

    async fn make_counter(&self, name: &str) {
        let mut tx = self.begin().await;
        let query = sqlx::query("INSERT INTO suite_counter (name, n) VALUES (?, 0)").bind(name);
        query.execute(&mut *tx).await.expect("a new counter");
        self.commit(tx).await;
    }

    async fn add(&self, conn: &mut MySqlConnection, counter: &str) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let query = sqlx::query("UPDATE suite_counter SET n = n + 1 WHERE name = ?").bind(counter);
        match query.execute(conn).await?.rows_affected() {
            1 => Ok(()),
            _ => Err(format!("there is no counter {counter}").into()),
        }
    }

    async fn counter(&self, name: &str) -> i64 {
        let mut tx = self.begin().await;
        let query = sqlx::query_scalar("SELECT n FROM suite_counter WHERE name = ?").bind(name);
        query.fetch_one(&mut *tx).await.expect("the counter was made")
    }

    async fn write_down(&self, conn: &mut MySqlConnection, key: &str, sequence: i64) {
        let query = sqlx::query("INSERT INTO suite_log (`key`, sequence) VALUES (?, ?)");
        let query = query.bind(key).bind(sequence);
        query.execute(conn).await.expect("it is written down");
    }

    async fn written_down(&self) -> Vec<(String, i64)> {
        let mut tx = self.begin().await;
        let query = sqlx::query_as("SELECT `key`, sequence FROM suite_log ORDER BY id");
        query.fetch_all(&mut *tx).await.expect("the log")
    }

    async fn insert_plainly(&self, conn: &mut MySqlConnection, event_id: &str, topic: &str, payload: &str) {
        let query = sqlx::query("INSERT INTO postrider_event (event_id, topic, payload) VALUES (?, ?, ?)");
        let query = query.bind(event_id).bind(topic).bind(payload);
        query.execute(conn).await.expect("a plain insert");
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::MySql)
    }

    async fn bare_connection(&self) -> Box<MySqlConnection> {
        Box::new(MySqlConnection::connect(&self.url()).await.expect("the server answers"))
    }

    async fn execute(&self, conn: &mut MySqlConnection, sql: &str, values: &[String]) {
        if values.is_empty() {
            // MySQL begins no transaction in a prepared statement.
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.expect("the statement runs");
            return;
        }
        let query = values.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, value| query.bind(value));
        query.execute(conn).await.expect("the statement runs");
    }

    /// Causes a deadlock, the worst case: the server rolls the whole
    /// transaction back, and later statements auto-commit.
    async fn texts(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        let mut tx = self.store.begin().await.expect("a transaction");
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *tx).await.expect("the rows are read");
        let text = |row: &sqlx::mysql::MySqlRow, at| row.try_get_unchecked(at).expect("a text");
        rows.iter().map(|row| (0..row.len()).map(|at| text(row, at)).collect()).collect()
    }

    async fn swallow_a_database_error(&self, conn: &mut MySqlConnection) {
        const LOCK: &str = "SELECT name FROM suite_victim WHERE name = ? FOR UPDATE";
        sqlx::query(LOCK).bind("a").execute(&mut *conn).await.expect("one lock is had");
        let mut other = MySqlConnection::connect(&self.url()).await.expect("the server answers");
        let id: u64 = sqlx::query_scalar("SELECT connection_id()").fetch_one(&mut other).await.expect("an answer");
        let waiting = tokio::spawn(async move {
            let mut tx = other.begin().await.expect("begins");
            // InnoDB picks the transaction with fewer written rows as the victim.
            let heavy = "INSERT INTO suite_log (`key`, sequence) WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 900) \
                SELECT 'weight', n FROM n";
            sqlx::query(heavy).execute(&mut *tx).await.expect("writes");
            sqlx::query(LOCK).bind("b").execute(&mut *tx).await.expect("the other lock is had");
            sqlx::query(LOCK).bind("a").execute(&mut *tx).await.expect("it is not the victim");
            tx.rollback().await.expect("rolls back");
        });
        let mut auditor = MySqlConnection::connect(&self.url()).await.expect("the server answers");
        let waits = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ? AND trx_state = 'LOCK WAIT'";
        loop {
            let query = sqlx::query_scalar(waits).bind(id);
            if query.fetch_one(&mut auditor).await.unwrap_or(0_i64) == 1 {
                break;
            }
            // InnoDB refreshes `innodb_trx` only if it was not read for 0.1 s.
            tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        }
        let deadlock = sqlx::query(LOCK).bind("b").execute(conn).await.expect_err("a deadlock").to_string();
        assert!(deadlock.contains("1213"), "{deadlock}");
        waiting.await.expect("the other goes on");
    }

    async fn shell_insert(&self, sql: &str) -> Option<()> {
        let url = self.url();
        let (user, place) = url.trim_start_matches("mysql://").split_once('@').expect("the URL names a user");
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        let (host, database) = place.split_once('/').expect("the URL names a database");
        let (host, port) = host.split_once(':').unwrap_or((host, "3306"));
        let output = Command::new("mariadb")
            .args(["--no-defaults", "--protocol=tcp", "--init-command=SET time_zone = '+08:00'"])
            .args(["--host", host, "--port", port, "--user", user, "--execute", sql])
            .arg(database.split('?').next().expect("a name"))
            .env("MYSQL_PWD", password)
            .env("TZ", "Asia/Shanghai")
            .output()
            .expect("the mariadb shell is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(())
    }

    fn sql_time(&self, at: OffsetDateTime) -> String {
        let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
        // In UTC, independent of the session's time zone.
        format!("'{}'", at.to_offset(time::UtcOffset::UTC).format(format).expect("a time"))
    }

    async fn hold_locks(&self, lane: &str, deliveries: u32) -> Option<<MySqlStore as Enlist>::Tx> {
        let mut tx = self.begin().await;
        let first = sqlx::query_scalar("SELECT id FROM postrider_delivery WHERE lane = ? ORDER BY due_at, id LIMIT ?");
        let first: Vec<i64> = first.bind(lane).bind(deliveries).fetch_all(&mut *tx).await.expect("deliveries");
        for id in first {
            // One row at a time: a sorted `FOR UPDATE` locks every row it sorts.
            let query = sqlx::query("SELECT id FROM postrider_delivery WHERE id = ? FOR UPDATE").bind(id);
            query.execute(&mut *tx).await.expect("the lock is had");
        }
        Some(tx)
    }

    async fn unmigrated(&self, instances: usize) -> Vec<MySqlStore> {
        let name = database(&self.server).await;
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
            execute(&self.server, format!("DROP DATABASE {name}")).await;
        }
    }
}

postrider_conformance::suite!(MySql::fresh().await);
