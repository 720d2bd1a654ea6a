//! The cost of an event in the producer's transaction: a business row with `enqueue`, compared with the same row and
//! the single INSERT of a classic outbox table. Eight connections at full speed.

use std::sync::Arc;

use futures_util::future::try_join_all;
use postrider::store::postgres::PostgresStore;
use postrider::{Aggregate, Draft, Outbox};
use sqlx::PgConnection;
use sqlx::postgres::{PgPool, PgPoolOptions};
use uuid::Uuid;

use crate::drain::TURNS;
use crate::report::Round;
use crate::setup::{Scratch, TOPIC, payload};
use crate::turns::{Turn, in_turns};
use crate::{Outcome, Size};

const CONNECTIONS: usize = 8;

const BUSINESS_TABLE: &str = "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, status text NOT NULL, cents bigint NOT NULL)";
const BUSINESS: &str = "INSERT INTO orders (status, cents) VALUES ('PAID', 9900)";

/// The usual hand-made outbox table: status and retries in the event's row, with the indexes to find them.
const CLASSIC_TABLE: &str = "
    CREATE TABLE outbox (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        tenant_id bigint,
        store_id bigint,
        aggregate_type varchar(64) NOT NULL,
        aggregate_id varchar(128) NOT NULL,
        topic varchar(128) NOT NULL,
        event_id varchar(64) NOT NULL UNIQUE,
        payload json NOT NULL,
        metadata json,
        status varchar(32) NOT NULL DEFAULT 'NEW',
        retry_count int NOT NULL DEFAULT 0,
        max_retry_count int NOT NULL DEFAULT 10,
        next_retry_at timestamptz,
        last_error text,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        sent_at timestamptz
    );
    CREATE INDEX outbox_pending ON outbox (status, next_retry_at);
    CREATE INDEX outbox_aggregate ON outbox (aggregate_type, aggregate_id)";
const CLASSIC: &str =
    "INSERT INTO outbox (event_id, topic, aggregate_type, aggregate_id, payload) VALUES ($1, $2, $3, $4, $5::json)";

pub(crate) async fn postgres_beside_classic(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let store = scratch.postgres_store("producer").await?;
    let ours = business(&scratch.url("producer")?).await?;
    let classic = business(&scratch.postgres("producer_classic").await?).await?;
    sqlx::raw_sql(CLASSIC_TABLE).execute(&classic).await?;

    let enqueue = Arc::new(Way::Enqueue(Outbox::new(store).service("bench"), payload()));
    let insert = Arc::new(Way::Insert(payload()));
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        let ours = async |count| transactions(&ours, count, &enqueue).await;
        let classic = async |count| transactions(&classic, count, &insert).await;
        rounds.push(in_turns(size.transactions, TURNS, ours, classic).await?);
    }
    Ok(rounds)
}

async fn business(url: &str) -> Outcome<PgPool> {
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS as u32)
        .min_connections(CONNECTIONS as u32)
        .test_before_acquire(false)
        .connect(url)
        .await?;
    sqlx::raw_sql(BUSINESS_TABLE).execute(&pool).await?;
    Ok(pool)
}

/// How the event is written in the transaction.
enum Way {
    Enqueue(Outbox<PostgresStore>, serde_json::Value),
    Insert(serde_json::Value),
}

impl Way {
    async fn write(&self, conn: &mut PgConnection) -> Outcome<()> {
        match self {
            Self::Enqueue(outbox, payload) => {
                let draft = Draft::json(TOPIC, payload)?.aggregate(Aggregate::new("ORDER", 7));
                outbox.enqueue(conn, draft).await?;
            }
            Self::Insert(payload) => {
                let id = Uuid::now_v7().to_string();
                sqlx::query(CLASSIC)
                    .bind(id)
                    .bind(TOPIC)
                    .bind("ORDER")
                    .bind("7")
                    .bind(payload.to_string())
                    .execute(conn)
                    .await?;
            }
        }
        Ok(())
    }
}

/// Runs at least `goal` business transactions over all connections.
async fn transactions(pool: &PgPool, goal: usize, way: &Arc<Way>) -> Outcome<Turn> {
    let each = goal.div_ceil(CONNECTIONS);
    let tasks = (0..CONNECTIONS).map(|_| {
        let (pool, way) = (pool.clone(), Arc::clone(way));
        tokio::spawn(async move {
            for _ in 0..each {
                let mut tx = pool.begin().await?;
                sqlx::query(BUSINESS).execute(&mut *tx).await?;
                way.write(&mut tx).await?;
                tx.commit().await?;
            }
            Outcome::Ok(each)
        })
    });
    Turn::time(async { try_join_all(tasks).await?.into_iter().sum() }).await
}
