//! The fastest hand-written relay loop on SQLite with the same driver: one
//! writer, a narrow work row, deletion when done.

use sqlx::Row;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use uuid::Uuid;

use crate::Outcome;
use crate::drain::BATCH;
use crate::setup::{TOPIC, payload};
use crate::turns::Turn;

const TABLES: &str = "
    CREATE TABLE bare_event (id INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, topic TEXT NOT NULL, payload TEXT NOT NULL, created_at INTEGER NOT NULL);
    CREATE TABLE bare_work (id INTEGER PRIMARY KEY, due_at INTEGER NOT NULL, lock_until INTEGER, token INTEGER, attempts INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX bare_work_due ON bare_work (due_at, id)";

const FILL_EVENTS: &str = "INSERT INTO bare_event (event_id, topic, payload, created_at) SELECT value, ?2, ?3, unixepoch() FROM json_each(?1)";
const FILL_WORK: &str = "INSERT INTO bare_work (id, due_at) SELECT id, created_at * 1000 FROM bare_event WHERE id > ?1";

const CLAIM: &str = "
    UPDATE bare_work SET lock_until = unixepoch() * 1000 + 30000, token = ?2, attempts = attempts + 1
    WHERE id IN (
        SELECT id FROM bare_work WHERE due_at <= unixepoch() * 1000 AND (lock_until IS NULL OR lock_until <= unixepoch() * 1000)
        ORDER BY due_at, id LIMIT ?1 + 0)
    RETURNING id";
const EVENTS: &str =
    "SELECT id, event_id, topic, payload, created_at FROM bare_event WHERE id IN (SELECT value FROM json_each(?1))";
const SETTLE: &str = "DELETE FROM bare_work WHERE id IN (SELECT value FROM json_each(?1)) AND token = ?2";

pub(crate) struct Bare {
    pool: SqlitePool,
}

impl Bare {
    pub(crate) async fn new(url: &str) -> Outcome<Self> {
        let options: SqliteConnectOptions = url.parse()?;
        let options =
            options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
        let pool = SqlitePoolOptions::new().max_connections(1).test_before_acquire(false).connect_with(options).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        Ok(Self { pool })
    }

    pub(crate) async fn fill(&self, events: usize) -> Outcome<()> {
        let payload = payload().to_string();
        let last: Option<i64> = sqlx::query_scalar("SELECT max(id) FROM bare_event").fetch_one(&self.pool).await?;
        let mut left = events;
        while left > 0 {
            let batch = left.min(1_000);
            let ids: Vec<String> = (0..batch).map(|_| Uuid::now_v7().to_string()).collect();
            sqlx::query(FILL_EVENTS)
                .bind(serde_json::to_string(&ids)?)
                .bind(TOPIC)
                .bind(&payload)
                .execute(&self.pool)
                .await?;
            left -= batch;
        }
        sqlx::query(FILL_WORK).bind(last.unwrap_or_default()).execute(&self.pool).await?;
        Ok(())
    }

    /// Drains up to `goal` events. One worker, because SQLite has one writer.
    pub(crate) async fn drain(&self, goal: usize) -> Outcome<Turn> {
        Turn::time(self.drain_untimed(goal)).await
    }

    async fn drain_untimed(&self, goal: usize) -> Outcome<usize> {
        let (mut token, mut drained) = (0_i64, 0);
        while drained < goal as u64 {
            token += 1;
            let ids: Vec<i64> = sqlx::query_scalar(CLAIM).bind(BATCH).bind(token).fetch_all(&self.pool).await?;
            if ids.is_empty() {
                break;
            }
            let ids = serde_json::to_string(&ids)?;
            let mut bytes = 0;
            for row in sqlx::query(EVENTS).bind(&ids).fetch_all(&self.pool).await? {
                let event: (String, String, String) = (row.get(1), row.get(2), row.get(3));
                bytes += event.2.len();
            }
            assert!(bytes > 0);
            drained += sqlx::query(SETTLE).bind(ids).bind(token).execute(&self.pool).await?.rows_affected();
        }
        Ok(drained as usize)
    }
}
