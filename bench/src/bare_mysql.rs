//! The fastest hand-written relay loop on MySQL with the same driver: an immutable event, a narrow work row whose lease
//! touches no indexed column, deletion when done. No order, no routing, no dead letters, no history, one consumer.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use sqlx::mysql::{MySqlArguments, MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::query::Query;
use sqlx::{MySql, Row};
use uuid::Uuid;

use crate::Outcome;
use crate::drain::{BATCH, sum};
use crate::setup::{TOPIC, payload};
use crate::turns::Turn;

const TABLES: &str = "
    CREATE TABLE bare_event (
        id BIGINT AUTO_INCREMENT PRIMARY KEY,
        event_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE,
        topic VARCHAR(128) CHARACTER SET ascii NOT NULL,
        payload MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
        created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
    );
    CREATE TABLE bare_work (
        id BIGINT PRIMARY KEY,
        due_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
        lock_until DATETIME(6),
        token BIGINT,
        attempts SMALLINT NOT NULL DEFAULT 0,
        KEY bare_work_due (due_at)
    )";

const FILL_EVENTS: &str = "
    INSERT INTO bare_event (event_id, topic, payload)
    SELECT i.id, ?, ? FROM JSON_TABLE(?, '$[*]' COLUMNS (id VARCHAR(64) PATH '$')) i";
const FILL_WORK: &str = "INSERT INTO bare_work (id) SELECT id FROM bare_event WHERE id > ?";

const CLAIM: &str = "
    UPDATE (
        SELECT id FROM bare_work FORCE INDEX (bare_work_due)
        WHERE due_at <= UTC_TIMESTAMP(6) AND (lock_until IS NULL OR lock_until <= UTC_TIMESTAMP(6))
        ORDER BY due_at, id LIMIT ? FOR UPDATE SKIP LOCKED) free
    STRAIGHT_JOIN bare_work w FORCE INDEX (PRIMARY) ON w.id = free.id
    SET w.lock_until = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND, w.token = ?, w.attempts = w.attempts + 1";
const FETCH: &str = "
    SELECT w.id, w.attempts, e.event_id, e.topic, e.payload, e.created_at
    FROM bare_work w FORCE INDEX (bare_work_due) STRAIGHT_JOIN bare_event e ON e.id = w.id
    WHERE w.due_at <= UTC_TIMESTAMP(6) AND w.token = ? ORDER BY w.due_at, w.id LIMIT ?";
const SETTLE: &str = "
    DELETE w FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
    STRAIGHT_JOIN bare_work w FORCE INDEX (PRIMARY) ON w.id = i.id WHERE w.token = ?";

/// Runs a statement as its own transaction, and repeats it after a deadlock (1213). Returns the number of rows.
async fn execute<'q>(
    session: &mut MySqlConnection,
    statement: impl Fn() -> Query<'q, MySql, MySqlArguments>,
) -> sqlx::Result<u64> {
    loop {
        match statement().execute(&mut *session).await {
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("40001") => {}
            answer => return Ok(answer?.rows_affected()),
        }
    }
}

pub(crate) struct Bare {
    pool: MySqlPool,
}

impl Bare {
    pub(crate) async fn new(url: &str) -> Outcome<Self> {
        let pool = MySqlPoolOptions::new()
            .max_connections(4)
            .test_before_acquire(false)
            .after_connect(|session, _| {
                Box::pin(async move {
                    let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
                    sqlx::raw_sql(level).execute(session).await?;
                    Ok(())
                })
            })
            .connect(url)
            .await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        Ok(Self { pool })
    }

    pub(crate) async fn fill(&self, events: usize) -> Outcome<()> {
        let payload = payload().to_string();
        let last: i64 = sqlx::query_scalar("SELECT coalesce(max(id), 0) FROM bare_event").fetch_one(&self.pool).await?;
        let mut left = events;
        while left > 0 {
            let batch = left.min(1_000);
            let ids: Vec<String> = (0..batch).map(|_| Uuid::now_v7().to_string()).collect();
            let fill = sqlx::query(FILL_EVENTS).bind(TOPIC).bind(&payload).bind(serde_json::to_string(&ids)?);
            fill.execute(&self.pool).await?;
            left -= batch;
        }
        sqlx::query(FILL_WORK).bind(last).execute(&self.pool).await?;
        Ok(())
    }

    /// Drains up to `goal` events.
    pub(crate) async fn drain(&self, workers: usize, goal: usize) -> Outcome<Turn> {
        let left = Arc::new(AtomicIsize::new(goal as isize));
        let tasks = (0..workers).map(|worker| {
            let (pool, left) = (self.pool.clone(), Arc::clone(&left));
            tokio::spawn(async move {
                // One session for the whole run: the pool would ping a returned one.
                let mut session = pool.acquire().await?;
                let (mut token, mut drained) = (worker as i64 * 1_000_000_000, 0_u64);
                while left.fetch_sub(BATCH as isize, Ordering::AcqRel) > 0 {
                    token += 1;
                    let leased = execute(&mut session, || sqlx::query(CLAIM).bind(BATCH).bind(token)).await?;
                    if leased == 0 {
                        break;
                    }
                    let rows = sqlx::query(FETCH).bind(token).bind(leased).fetch_all(&mut *session).await?;
                    let (mut ids, mut bytes) = (String::from("["), 0);
                    for row in &rows {
                        ids += &row.get::<i64, _>(0).to_string();
                        ids.push(',');
                        let event: (String, String, String) = (row.get(2), row.get(3), row.get(4));
                        bytes += event.2.len();
                    }
                    assert!(bytes > 0);
                    ids.pop();
                    ids.push(']');
                    drained += execute(&mut session, || sqlx::query(SETTLE).bind(&ids).bind(token)).await?;
                }
                Ok::<_, sqlx::Error>(drained as usize)
            })
        });
        Turn::time(sum(tasks)).await
    }
}
