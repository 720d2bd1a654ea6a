//! The program of docs/observability.md. A request, the event that it publishes, the consumer of that event, and what the
//! consumer publishes are one trace.
//!
//! ```console
//! $ OTLP=http://127.0.0.1:4318 cargo run --locked -p postrider-otel
//! $ curl -X POST http://127.0.0.1:3000/orders/7/pay
//! $ curl http://127.0.0.1:3000/metrics
//! ```
#![allow(clippy::print_stdout, reason = "it prints its address, and the mails that it would send")]

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use postrider::envelope::trace::TraceContext;
use postrider::prelude::*;
use postrider::service::shutdown_signal;
use postrider::sqlx::SqliteConnection;
use postrider::store::sqlite::SqliteStore;
use postrider::{Consumer, Event, Failure, Inbox, Outbox, OutsideConsumer, Received, Service, observe};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Serialize, Deserialize)]
struct OrderPaid {
    order_id: i64,
}

impl Event for OrderPaid {
    const TOPIC: &'static str = "order.paid";
}

#[derive(Serialize, Deserialize)]
struct PointsEarned {
    order_id: i64,
}

impl Event for PointsEarned {
    const TOPIC: &'static str = "points.earned";
}

/// The span of a request, below the caller's span.
async fn traced(request: Request, next: Next) -> Response {
    let span = tracing::info_span!("request", otel.kind = "server", http.request.method = %request.method());
    let caller = request.headers().get("traceparent").and_then(|value| TraceContext::parse(value.to_str().ok()?));
    if let Some(TraceContext { trace_id, span_id }) = caller {
        observe::set_parent(&span, &trace_id, &span_id);
    }
    next.run(request).instrument(span).await
}

#[derive(Clone)]
struct App {
    store: SqliteStore,
    outbox: Outbox<SqliteStore>,
}

async fn pay(State(app): State<App>, Path(order_id): Path<i64>) -> Result<(), StatusCode> {
    let paid = async {
        let mut tx = app.store.begin().await?;
        app.outbox.enqueue(&mut tx, &OrderPaid { order_id }).await?;
        app.store.commit(tx).await
    };
    paid.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

struct EarnPoints(Outbox<SqliteStore>);

impl Consumer<SqliteStore> for EarnPoints {
    const NAME: &'static str = "points";
    type Event = OrderPaid;

    async fn handle(&self, tx: &mut SqliteConnection, paid: Received<OrderPaid>) -> Result<(), Failure> {
        self.0.enqueue(tx, &PointsEarned { order_id: paid.order_id }).await?;
        Ok(())
    }
}

struct SendMail;

impl OutsideConsumer for SendMail {
    const NAME: &'static str = "mail";
    type Event = PointsEarned;

    async fn handle(&self, earned: Received<PointsEarned>) -> Result<(), Failure> {
        // The header for the call that sends the mail.
        println!("mail for order {} with {}", earned.order_id, earned.traceparent().unwrap_or_default());
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let traces = postrider_otel::traces(&setting("OTLP", "http://127.0.0.1:4318"))?;
    let metrics = postrider_otel::metrics()?;

    let store = SqliteStore::connect(&setting("DATABASE_URL", "sqlite://shop.db")).await?;
    store.migrate().await?;
    let outbox = Outbox::new(store.clone()).service("shop");
    let inbox = Inbox::new(store.clone()).consumer(EarnPoints(outbox.clone())).outside(SendMail);
    inbox.register().await?;
    let app = Router::new()
        .route("/orders/{id}/pay", post(pay))
        .with_state(App { store: store.clone(), outbox })
        .layer(from_fn(traced))
        .route("/metrics", get(async move || metrics.render()));

    let signal = shutdown_signal()?;
    let stop = CancellationToken::new();
    let listener = tokio::net::TcpListener::bind(setting("LISTEN", "127.0.0.1:3000")).await?;
    println!("listening on {}", listener.local_addr()?);
    let server = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
    let service = Service::new(store).inbox(inbox).run(stop.clone().cancelled_owned());
    tokio::try_join!(async { Ok::<_, AnyError>(service.await?) }, async { Ok(server.await?) }, async {
        signal.await;
        stop.cancel();
        Ok(())
    },)?;
    tokio::task::spawn_blocking(move || traces.shutdown()).await??; // sends the last spans
    Ok(())
}
