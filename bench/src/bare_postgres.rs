//! The fastest hand-written relay loop on PostgreSQL: an immutable event, a narrow work row, a lease that touches no
//! indexed column, deletion when done. No order, no routing, no dead letters, no history, one consumer.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Connection, Row};
use uuid::Uuid;

use crate::Outcome;
use crate::drain::{BATCH, sum};
use crate::setup::{TOPIC, payload};
use crate::turns::Turn;

const TABLES: &str = "
    CREATE TABLE bare_event (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        event_id text COLLATE \"C\" NOT NULL UNIQUE,
        topic text NOT NULL,
        payload text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE TABLE bare_work (
        id bigint PRIMARY KEY,
        due_at timestamptz NOT NULL DEFAULT now(),
        lock_until timestamptz,
        token bigint,
        attempts smallint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 40);
    CREATE INDEX bare_work_due ON bare_work (due_at, id)";

const FILL: &str = "
    WITH e AS (
        INSERT INTO bare_event (event_id, topic, payload) SELECT i, $2, $3 FROM unnest($1::text[]) i RETURNING id
    ) INSERT INTO bare_work (id) SELECT id FROM e";

const CLAIM: &str = "
    UPDATE bare_work w SET lock_until = now() + interval '30 s', token = $2, attempts = attempts + 1
    FROM bare_event e
    WHERE w.ctid = ANY (ARRAY(
        SELECT ctid FROM bare_work WHERE due_at <= now() AND (lock_until IS NULL OR lock_until <= now())
        ORDER BY due_at, id LIMIT $1 FOR UPDATE SKIP LOCKED))
      AND e.id = w.id
    RETURNING w.id, w.attempts, e.event_id, e.topic, e.payload, e.created_at";

const SETTLE: &str = "DELETE FROM bare_work WHERE id = ANY ($1) AND token = $2";

const INBOX: &str = "CREATE TABLE bare_inbox (consumer text NOT NULL, event_id text COLLATE \"C\" NOT NULL, PRIMARY KEY (consumer, event_id))";
const RECEIVE: &str = "INSERT INTO bare_inbox VALUES ('bench', $1) ON CONFLICT DO NOTHING";
const PAY: &str = "UPDATE balance SET cents = cents + $2 WHERE account = $1";
const SETTLE_ONE: &str = "DELETE FROM bare_work WHERE id = $1 AND token = $2";

pub(crate) struct Bare {
    pool: PgPool,
}

impl Bare {
    pub(crate) async fn new(url: &str) -> Outcome<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .test_before_acquire(false)
            .after_connect(|session, _| {
                Box::pin(async move {
                    sqlx::raw_sql("SET enable_seqscan = off; SET jit = off").execute(session).await?;
                    Ok(())
                })
            })
            .connect(url)
            .await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        sqlx::raw_sql(INBOX).execute(&pool).await?;
        Ok(Self { pool })
    }

    pub(crate) async fn run(&self, sql: &'static str) -> Outcome<()> {
        sqlx::raw_sql(sql).execute(&self.pool).await?;
        Ok(())
    }

    /// One transaction per event: inbox row, balance, deletion of the work row.
    pub(crate) async fn pay(&self, workers: usize) -> Outcome<Turn> {
        let tasks = (0..workers).map(|worker| {
            let pool = self.pool.clone();
            tokio::spawn(async move {
                // One session for the whole run: the pool would ping a returned one.
                let mut session = pool.acquire().await?;
                let (mut token, mut paid) = (worker as i64 * 1_000_000_000, 0);
                loop {
                    token += 1;
                    let batch = i64::from(BATCH) / workers as i64;
                    let rows = sqlx::query(CLAIM).bind(batch).bind(token).fetch_all(&mut *session).await?;
                    if rows.is_empty() {
                        return Ok::<_, sqlx::Error>(paid as usize);
                    }
                    for row in &rows {
                        let (id, event_id, payload): (i64, &str, &str) = (row.get(0), row.get(2), row.get(4));
                        let mut tx = session.begin().await?;
                        if sqlx::query(RECEIVE).bind(event_id).execute(&mut *tx).await?.rows_affected() == 1 {
                            let account = id % crate::engine::ACCOUNTS;
                            let cents = if payload.is_empty() { 0_i64 } else { 9_900 };
                            sqlx::query(PAY).bind(account).bind(cents).execute(&mut *tx).await?;
                        }
                        paid += sqlx::query(SETTLE_ONE).bind(id).bind(token).execute(&mut *tx).await?.rows_affected();
                        tx.commit().await?;
                    }
                }
            })
        });
        Turn::time(sum(tasks)).await
    }

    pub(crate) async fn fill(&self, events: usize) -> Outcome<()> {
        let payload = payload().to_string();
        let mut left = events;
        while left > 0 {
            let batch = left.min(1_000);
            let ids: Vec<String> = (0..batch).map(|_| Uuid::now_v7().to_string()).collect();
            sqlx::query(FILL).bind(ids).bind(TOPIC).bind(&payload).execute(&self.pool).await?;
            left -= batch;
        }
        Ok(())
    }

    /// Drains up to `goal` events.
    pub(crate) async fn drain(&self, workers: usize, goal: usize) -> Outcome<Turn> {
        let left = Arc::new(AtomicIsize::new(goal as isize));
        let tasks = (0..workers).map(|worker| {
            let (pool, left) = (self.pool.clone(), Arc::clone(&left));
            tokio::spawn(async move {
                let mut session = pool.acquire().await?;
                let (mut token, mut drained) = (worker as i64 * 1_000_000_000, 0);
                while left.fetch_sub(BATCH as isize, Ordering::AcqRel) > 0 {
                    token += 1;
                    let rows = sqlx::query(CLAIM).bind(i64::from(BATCH)).bind(token).fetch_all(&mut *session).await?;
                    if rows.is_empty() {
                        break;
                    }
                    let (mut ids, mut bytes) = (Vec::with_capacity(rows.len()), 0);
                    for row in &rows {
                        ids.push(row.get::<i64, _>(0));
                        let event: (String, String, String) = (row.get(2), row.get(3), row.get(4));
                        bytes += event.2.len();
                    }
                    assert!(bytes > 0);
                    drained += sqlx::query(SETTLE).bind(ids).bind(token).execute(&mut *session).await?.rows_affected();
                }
                Ok::<_, sqlx::Error>(drained as usize)
            })
        });
        Turn::time(sum(tasks)).await
    }
}
