//! The program of docs/getting-started.md: a service with axum, sqlx and PostgreSQL. A payment changes the order and
//! announces it in one transaction; two consumers have their effect once.
//!
//! ```console
//! $ DATABASE_URL=postgres://postgres@localhost/shop cargo run --locked -p postrider-axum
//! $ curl -X POST http://127.0.0.1:3000/orders/7/pay
//! ```
#![allow(clippy::print_stdout, reason = "it prints its address")]

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use postrider::prelude::*;
use postrider::service::shutdown_signal;
use postrider::store::postgres::PostgresStore;
use postrider::{BatchConsumer, Consumer, Enqueued, Event, Failure, Inbox, Outbox, Received, Service};
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgPool};
use tokio_util::sync::CancellationToken;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

// --- the event

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OrderPaid {
    order_id: i64,
}

impl Event for OrderPaid {
    const TOPIC: &'static str = "order.paid";

    /// The same fact has the same id, so a repeated request announces nothing new.
    fn event_id(&self) -> Option<String> {
        Some(format!("order:{}:paid", self.order_id))
    }

    /// Events of one order arrive in order.
    fn key(&self) -> Option<String> {
        Some(self.order_id.to_string())
    }
}

// --- the request: the change and its event, in one transaction

#[derive(Clone)]
struct App {
    pool: PgPool,
    outbox: Outbox<PostgresStore>,
}

async fn pay(State(app): State<App>, Path(order_id): Path<i64>) -> Result<&'static str, (StatusCode, String)> {
    let paid = mark_as_paid(&app, order_id).await;
    let paid = paid.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")))?;
    Ok(if paid { "paid\n" } else { "was paid before\n" })
}

async fn mark_as_paid(app: &App, order_id: i64) -> Result<bool, AnyError> {
    let mut tx = app.pool.begin().await?;
    let order = "INSERT INTO orders (id, status) VALUES ($1, 'PAID') ON CONFLICT (id) DO UPDATE SET status = 'PAID'";
    sqlx::query(order).bind(order_id).execute(&mut *tx).await?;
    let enqueued = app.outbox.enqueue(&mut tx, &OrderPaid { order_id }).await?;
    tx.commit().await?; // both, or neither
    Ok(!matches!(enqueued, Enqueued::Duplicate(_)))
}

// --- the consumers

/// One event in one transaction.
struct CommitCoupon;

impl Consumer<PostgresStore> for CommitCoupon {
    const NAME: &'static str = "coupon";
    type Event = OrderPaid;

    async fn handle(&self, tx: &mut PgConnection, paid: Received<OrderPaid>) -> Result<(), Failure> {
        let coupon = "INSERT INTO coupons (order_id, used) VALUES ($1, 1) \
                      ON CONFLICT (order_id) DO UPDATE SET used = coupons.used + 1";
        sqlx::query(coupon).bind(paid.order_id).execute(&mut *tx).await?; // any error: rolled back, and retried
        Ok(())
    }
}

/// All events that wait, up to 100 of them, in one transaction.
struct CountOrders;

impl BatchConsumer<PostgresStore> for CountOrders {
    const NAME: &'static str = "order-count";
    const SIZE: usize = 100;
    type Event = OrderPaid;

    async fn handle(&self, tx: &mut PgConnection, paid: Vec<Received<OrderPaid>>) -> Result<(), Failure> {
        let orders = i64::try_from(paid.len()).unwrap_or(i64::MAX);
        sqlx::query("UPDATE figures SET orders = orders + $1").bind(orders).execute(&mut *tx).await?;
        Ok(())
    }
}

// --- the service

/// Your own migrations would create these.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY, status text NOT NULL);
    CREATE TABLE IF NOT EXISTS coupons (order_id bigint PRIMARY KEY, used bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS figures (id int PRIMARY KEY, orders bigint NOT NULL);
    INSERT INTO figures VALUES (1, 0) ON CONFLICT DO NOTHING;
";

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init(); // Postrider logs with tracing
    let signal = shutdown_signal()?;
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    let store = PostgresStore::from_pool(pool.clone()).await?;
    store.migrate().await?; // any number of instances may do so at once
    sqlx::raw_sql(TABLES).execute(&pool).await?;

    let inbox = Inbox::new(store.clone()).consumer(CommitCoupon).batch(CountOrders);
    inbox.register().await?; // before the first request, so that its event reaches both

    let app = App { pool, outbox: Outbox::new(store.clone()).service("shop") };
    let app = Router::new().route("/orders/{id}/pay", post(pay)).with_state(app);
    let listener = tokio::net::TcpListener::bind(std::env::var("LISTEN").unwrap_or("127.0.0.1:3000".into())).await?;
    println!("listening on {}", listener.local_addr()?);

    let stop = CancellationToken::new();
    let service = Service::new(store).inbox(inbox).run(stop.clone().cancelled_owned());
    let server = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
    tokio::try_join!(async { Ok::<_, AnyError>(service.await?) }, async { Ok(server.await?) }, async {
        signal.await;
        stop.cancel();
        Ok(())
    },)?;
    Ok(())
}
