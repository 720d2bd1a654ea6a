//! SQLite. Each case has its own file in its own folder.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::process::Command;

use postrider::outbox::Dialect;
use postrider::prelude::*;
use postrider::store::sqlite::SqliteStore;
use postrider_conformance::{Features, Harness};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};
use time::macros::{format_description, offset};
use time::{OffsetDateTime, UtcOffset};

const EAST: UtcOffset = offset!(+8);

#[derive(Clone)]
pub(crate) struct Sqlite {
    store: SqliteStore,
    folder: PathBuf,
}

impl Sqlite {
    pub(crate) async fn fresh() -> Self {
        let folder = std::env::temp_dir().join(format!("postrider-case-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&folder).expect("a folder for the case");
        let store = connect(&folder.join("case.db")).await;
        store.migrate().await.expect("an empty file is migrated");
        let sqlite = Self { store, folder };
        let mut tx = sqlite.begin().await;
        for table in [
            "CREATE TABLE suite_counter (name TEXT PRIMARY KEY NOT NULL, n INTEGER NOT NULL)",
            "CREATE TABLE suite_log (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, sequence INTEGER NOT NULL)",
        ] {
            sqlx::query(table).execute(&mut *tx).await.expect("the suite's tables");
        }
        sqlite.commit(tx).await;
        sqlite
    }

    /// A file with the contents of a dump.
    pub(crate) async fn restored(dump: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("postrider-case-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&folder).expect("a folder for the case");
        let file = folder.join("case.db");
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file).create_if_missing(true);
        let mut conn = SqliteConnection::connect_with(&options).await.expect("the file can be made");
        sqlx::raw_sql(AssertSqlSafe(dump)).execute(&mut conn).await.expect("the dump is restored");
        conn.close().await.expect("the connection ends");
        Self { store: connect(&file).await, folder }
    }

    async fn begin(&self) -> <SqliteStore as Enlist>::Tx {
        self.store.begin().await.expect("a transaction")
    }

    async fn commit(&self, tx: <SqliteStore as Enlist>::Tx) {
        self.store.commit(tx).await.expect("a commit");
    }
}

async fn connect(file: &std::path::Path) -> SqliteStore {
    SqliteStore::connect(&format!("sqlite://{}", file.display())).await.expect("the file can be opened")
}

impl Harness for Sqlite {
    type Store = SqliteStore;

    fn features(&self) -> Features {
        Features { concurrent_transactions: false, connections: 8 }
    }

    fn store(&self) -> &SqliteStore {
        &self.store
    }

    async fn make_counter(&self, name: &str) {
        let mut tx = self.begin().await;
        let query = sqlx::query("INSERT INTO suite_counter (name, n) VALUES (?1, 0)").bind(name);
        query.execute(&mut *tx).await.expect("a new counter");
        self.commit(tx).await;
    }

    async fn add(&self, conn: &mut SqliteConnection, counter: &str) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let query = sqlx::query("UPDATE suite_counter SET n = n + 1 WHERE name = ?1").bind(counter);
        match query.execute(conn).await?.rows_affected() {
            1 => Ok(()),
            _ => Err(format!("there is no counter {counter}").into()),
        }
    }

    async fn counter(&self, name: &str) -> i64 {
        let mut tx = self.begin().await;
        let query = sqlx::query_scalar("SELECT n FROM suite_counter WHERE name = ?1").bind(name);
        query.fetch_one(&mut *tx).await.expect("the counter was made")
    }

    async fn write_down(&self, conn: &mut SqliteConnection, key: &str, sequence: i64) {
        let query = sqlx::query("INSERT INTO suite_log (key, sequence) VALUES (?1, ?2)");
        let query = query.bind(key).bind(sequence);
        query.execute(conn).await.expect("it is written down");
    }

    async fn written_down(&self) -> Vec<(String, i64)> {
        let mut tx = self.begin().await;
        let query = sqlx::query_as("SELECT key, sequence FROM suite_log ORDER BY id");
        query.fetch_all(&mut *tx).await.expect("the log")
    }

    async fn insert_plainly(&self, conn: &mut SqliteConnection, event_id: &str, topic: &str, payload: &str) {
        let query = sqlx::query("INSERT INTO postrider_event (event_id, topic, payload) VALUES (?1, ?2, ?3)");
        let query = query.bind(event_id).bind(topic).bind(payload);
        query.execute(conn).await.expect("a plain insert");
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Sqlite)
    }

    async fn bare_connection(&self) -> Box<SqliteConnection> {
        let url = format!("sqlite://{}", self.folder.join("case.db").display());
        Box::new(SqliteConnection::connect(&url).await.expect("the file can be opened"))
    }

    async fn execute(&self, conn: &mut SqliteConnection, sql: &str, values: &[String]) {
        let query = values.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, value| query.bind(value));
        query.execute(conn).await.expect("the statement runs");
    }

    async fn texts(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        let mut tx = self.store.begin().await.expect("a transaction");
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *tx).await.expect("the rows are read");
        let text = |row: &sqlx::sqlite::SqliteRow, at| row.try_get_unchecked(at).expect("a text");
        rows.iter().map(|row| (0..row.len()).map(|at| text(row, at)).collect()).collect()
    }

    async fn swallow_a_database_error(&self, conn: &mut SqliteConnection) {
        let query = sqlx::query("INSERT INTO suite_counter (name, n) VALUES (NULL, 0)");
        query.execute(conn).await.expect_err("a name is needed");
    }

    async fn shell_insert(&self, sql: &str) -> Option<()> {
        let output = Command::new("sqlite3")
            .args(["-bail", "-cmd", ".timeout 5000"])
            .arg(self.folder.join("case.db"))
            .arg(sql)
            .env("TZ", "Asia/Shanghai")
            .output()
            .expect("sqlite3 is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(())
    }

    fn sql_time(&self, at: OffsetDateTime) -> String {
        let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
        let local = at.to_offset(EAST).format(format).expect("a time");
        // The modifier 'utc' interprets the text as the shell's local time.
        format!("strftime('%s', '{local}', 'utc') * 1000")
    }

    async fn hold_locks(&self, _lane: &str, _deliveries: u32) -> Option<<SqliteStore as Enlist>::Tx> {
        // SQLite has one writer: a transaction that locks a row blocks every claim.
        None
    }

    async fn unmigrated(&self, instances: usize) -> Vec<SqliteStore> {
        let mut stores = Vec::new();
        for _ in 0..instances {
            stores.push(connect(&self.folder.join("empty.db")).await);
        }
        stores
    }

    async fn finish(self) {
        std::fs::remove_dir_all(&self.folder).expect("the case's folder");
    }
}

postrider_conformance::suite!(Sqlite::fresh().await);
