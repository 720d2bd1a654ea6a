//! The HTTP API. Each route parses its request, calls one function of the shop, and returns the result.

mod operator;
mod problem;

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use axum::routing::{get, post};
use axum::{Json, Router};
use postrider::jobs::{Jobs, RunNow};
use postrider::store::JobOutcome;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::accounts::{self, Account};
use crate::audit::{Audit, audit};
use crate::coupons::Coupon;
use crate::database::Database;
use crate::events::{rfc3339, text_or_number};
use crate::jobs;
use crate::ledger;
use crate::orders::{self, By, Order, Wanted};
use crate::payments::{self, Payment};
use crate::refunds::{self, Refund};
use crate::shop::{Caller, Shop};
use operator::Operator;
use problem::Problem;

/// The limit of a request body. The largest order is a tenth of it.
const BODY_BYTES: usize = 256 * 1024;
/// Longer request ids are cut.
const REQUEST_ID_CHARS: usize = 128;

/// The state of the handlers.
struct App<S> {
    shop: Shop<S>,
    jobs: Arc<Jobs>,
}

impl<S: Clone> Clone for App<S> {
    fn clone(&self) -> Self {
        Self { shop: self.shop.clone(), jobs: Arc::clone(&self.jobs) }
    }
}

type Answer<T> = Result<T, Problem>;
type Body<T> = Result<Json<T>, JsonRejection>;

/// All routes of a shop. Jobs need an operator's token; the other routes
/// need none, because the shop is a demonstration.
pub fn routes<S: Database>(shop: Shop<S>, jobs: Arc<Jobs>) -> Router {
    Router::new()
        .route("/shop/accounts", post(open_account::<S>))
        .route("/shop/accounts/{userId}", get(show_account::<S>))
        .route("/shop/coupons", post(give_coupon::<S>))
        .route("/shop/coupons/{couponId}", get(show_coupon::<S>))
        .route("/shop/orders", post(create_order::<S>))
        .route("/shop/orders/{orderId}", get(show_order::<S>))
        .route("/shop/orders/{orderId}/checkout", post(checkout::<S>))
        .route("/shop/orders/{orderId}/accept", post(accept::<S>))
        .route("/shop/orders/{orderId}/cancel", post(cancel::<S>))
        .route("/shop/orders/{orderId}/payments", post(begin_payment::<S>))
        .route("/shop/orders/{orderId}/refund", post(begin_refund::<S>))
        .route("/shop/payments/callback", post(payment_callback::<S>))
        .route("/shop/refunds/callback", post(refund_callback::<S>))
        .route("/shop/audit", get(show_audit::<S>))
        .route("/shop/jobs/{job}/run", post(run_job::<S>))
        .with_state(App { shop, jobs })
        .fallback(async |uri: Uri| {
            Problem::new(StatusCode::NOT_FOUND, "notFound", format!("there is no route {}", uri.path()))
        })
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "methodNotAllowed", "this path does not accept this method")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES))
}

/// Reads the trace and request id from the headers.
impl<T: Send + Sync> FromRequestParts<T> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &T) -> Result<Self, Self::Rejection> {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let trace_id = header("traceparent")
            .and_then(|parent| parent.split('-').nth(1))
            .filter(|id| id.len() == 32 && id.bytes().all(|c| c.is_ascii_hexdigit()) && id.bytes().any(|c| c != b'0'));
        let request_id = header("x-request-id").map(|id| id.chars().take(REQUEST_ID_CHARS).collect());
        Ok(Self { trace_id: trace_id.map(str::to_lowercase), request_id })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewAccount {
    #[serde(deserialize_with = "text_or_number")]
    user_id: String,
    #[serde(default)]
    wallet_cents: i64,
    #[serde(default)]
    points: i64,
}

async fn open_account<S: Database>(
    State(app): State<App<S>>,
    body: Body<NewAccount>,
) -> Answer<(StatusCode, Json<Account>)> {
    let Json(new) = body?;
    let account = accounts::open(&app.shop, &new.user_id, new.wallet_cents, new.points).await?;
    Ok((StatusCode::CREATED, Json(account)))
}

async fn show_account<S: Database>(State(app): State<App<S>>, Path(user_id): Path<String>) -> Answer<Json<Account>> {
    Ok(Json(accounts::find(&app.shop, &user_id).await?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewCoupon {
    #[serde(deserialize_with = "text_or_number")]
    coupon_id: String,
    #[serde(deserialize_with = "text_or_number")]
    user_id: String,
    #[serde(default)]
    discount_cents: i64,
}

async fn give_coupon<S: Database>(
    State(app): State<App<S>>,
    body: Body<NewCoupon>,
) -> Answer<(StatusCode, Json<Coupon>)> {
    let Json(new) = body?;
    let coupon = accounts::give_coupon(&app.shop, &new.coupon_id, &new.user_id, new.discount_cents).await?;
    Ok((StatusCode::CREATED, Json(coupon)))
}

async fn show_coupon<S: Database>(State(app): State<App<S>>, Path(coupon_id): Path<String>) -> Answer<Json<Coupon>> {
    Ok(Json(accounts::find_coupon(&app.shop, &coupon_id).await?))
}

fn brief(order: &Order) -> Json<Value> {
    Json(json!({ "orderId": order.order_id, "status": order.status, "traceId": order.trace_id }))
}

async fn create_order<S: Database>(
    State(app): State<App<S>>,
    caller: Caller,
    body: Body<Wanted>,
) -> Answer<(StatusCode, Json<Value>)> {
    let Json(wanted) = body?;
    Ok((StatusCode::CREATED, brief(&orders::create(&app.shop, &caller, wanted).await?)))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(flatten)]
    order: Order,
    payments: Vec<Payment>,
    refunds: Vec<Refund>,
    locks: Vec<Value>,
    needs_attention: bool,
}

async fn show_order<S: Database>(State(app): State<App<S>>, Path(order_id): Path<String>) -> Answer<Json<Shown>> {
    let mut tx = app.shop.store.begin().await?;
    let order = orders::find::<S>(&mut tx, &order_id).await?;
    let payments = payments::of_order::<S>(&mut tx, &order_id).await?.into_iter().collect();
    let refunds = refunds::of_order::<S>(&mut tx, &order_id).await?;
    let locks = ledger::locks::<S>(&mut tx, &order_id).await?;
    let locks = locks
        .iter()
        .map(|lock| json!({ "asset": lock.asset, "status": lock.status, "createdAt": rfc3339(lock.created_at) }));
    let locks = locks.collect();
    // Only the last refund counts: a failed one that was followed by another is resolved.
    let needs_attention = refunds.last().is_some_and(|refund| refund.needs_attention);
    Ok(Json(Shown { order, payments, refunds, locks, needs_attention }))
}

async fn checkout<S: Database>(
    State(app): State<App<S>>,
    caller: Caller,
    Path(order_id): Path<String>,
) -> Answer<Json<Value>> {
    Ok(brief(&orders::checkout(&app.shop, &caller, &order_id).await?))
}

async fn accept<S: Database>(State(app): State<App<S>>, Path(order_id): Path<String>) -> Answer<Json<Value>> {
    Ok(brief(&orders::accept(&app.shop, &order_id).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancel {
    by: By,
}

async fn cancel<S: Database>(
    State(app): State<App<S>>,
    caller: Caller,
    Path(order_id): Path<String>,
    body: Body<Cancel>,
) -> Answer<Json<Value>> {
    let Json(Cancel { by }) = body?;
    if by == By::System {
        return Err(Problem::field("by", "must be USER, MERCHANT or TIMEOUT".into()));
    }
    Ok(brief(&orders::cancel(&app.shop, &caller, &order_id, by).await?))
}

async fn begin_payment<S: Database>(
    State(app): State<App<S>>,
    Path(order_id): Path<String>,
) -> Answer<(StatusCode, Json<Payment>)> {
    let (payment, new) = payments::begin(&app.shop, &order_id).await?;
    Ok((if new { StatusCode::CREATED } else { StatusCode::OK }, Json(payment)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PaymentCallback {
    payment_id: String,
    success: bool,
}

async fn payment_callback<S: Database>(
    State(app): State<App<S>>,
    caller: Caller,
    body: Body<PaymentCallback>,
) -> Answer<Json<Payment>> {
    let Json(callback) = body?;
    Ok(Json(payments::callback(&app.shop, &caller, &callback.payment_id, callback.success).await?))
}

async fn begin_refund<S: Database>(
    State(app): State<App<S>>,
    Path(order_id): Path<String>,
) -> Answer<(StatusCode, Json<Refund>)> {
    Ok((StatusCode::CREATED, Json(refunds::begin(&app.shop, &order_id).await?)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RefundCallback {
    refund_id: String,
    success: bool,
}

async fn refund_callback<S: Database>(
    State(app): State<App<S>>,
    caller: Caller,
    body: Body<RefundCallback>,
) -> Answer<Json<Refund>> {
    let Json(callback) = body?;
    Ok(Json(refunds::callback(&app.shop, &caller, &callback.refund_id, callback.success).await?))
}

async fn show_audit<S: Database>(State(app): State<App<S>>) -> Answer<Json<Audit>> {
    Ok(Json(audit(&app.shop).await?))
}

async fn run_job<S: Database>(
    State(app): State<App<S>>,
    operator: Operator,
    Path(job): Path<String>,
) -> Answer<Json<Value>> {
    let name = match job.as_str() {
        "reaper" => jobs::REAPER,
        "consistency" => jobs::CONSISTENCY,
        "order-timeout" => jobs::ORDER_TIMEOUT,
        _ => return Err(Problem::not_found("job", &job)),
    };
    let (outcome, answer) = match app.jobs.run_now(name).await? {
        RunNow::Ended(JobOutcome::Done(words)) => {
            ("200", Ok(Json(serde_json::from_str(&words).unwrap_or(Value::Null))))
        }
        RunNow::Ended(JobOutcome::Failed(error)) => {
            tracing::error!(job = name, error, "a job failed");
            let problem =
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "jobFailed", "the service log contains the error");
            ("500", Err(problem))
        }
        RunNow::Busy => {
            ("409", Err(Problem::new(StatusCode::CONFLICT, "busy", "it is running already: try again later")))
        }
        RunNow::Lost => ("409", Err(Problem::new(StatusCode::CONFLICT, "lost", "it was stopped: try again later"))),
    };
    operator.write_down(&app.shop.store, name, outcome).await;
    answer
}
