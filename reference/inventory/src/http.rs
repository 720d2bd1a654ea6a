//! The HTTP API.

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::audit::{self, Books, Report};
use crate::batch::{Batch, PIECES, check_id, check_key};
use crate::database::{Database, Stock};
use crate::entry::Status;
use crate::error::Error;
use crate::inventory::{Done, Inventory};
use crate::problem::Problem;

/// The limit of a request body. The largest batch is about half of it.
const BODY_BYTES: usize = 512 * 1024;
/// The header of an idempotency key; the body may contain it too.
const KEY_HEADER: &str = "Idempotency-Key";

/// All routes of an inventory. They have no authentication; the server that mounts them has to add it.
pub fn routes<S: Database + Books>(inventory: Inventory<S>) -> Router {
    Router::new()
        .route("/inventory/products/{productId}/{skuId}", put(put_stock::<S>).get(show_stock::<S>))
        .route("/inventory/deductions", post(deduct::<S>))
        .route("/inventory/deductions/{idempotencyKey}/release", post(release::<S>))
        .route("/inventory/audit", get(show_audit::<S>))
        .fallback(async |uri: Uri| {
            Problem::new(StatusCode::NOT_FOUND, "notFound", format!("there is no route {}", uri.path()))
        })
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "methodNotAllowed", "this path does not accept this method")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(inventory)
}

/// An id in a request: a string, or a number that is read as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(i64),
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        match id {
            Id::Text(text) => text,
            Id::Number(number) => number.to_string(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    stock: i64,
}

#[derive(Serialize)]
struct Shown {
    stock: i64,
    reserved: i64,
}

impl From<Stock> for Json<Shown> {
    fn from(Stock { stock, reserved }: Stock) -> Self {
        Self(Shown { stock, reserved })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Deduction {
    order_id: Id,
    product_ids: Vec<Id>,
    sku_ids: Vec<Id>,
    quantities: Vec<i64>,
    idempotency_key: Option<String>,
}

#[derive(Serialize)]
struct Answer {
    status: &'static str,
    replayed: bool,
}

impl Answer {
    fn new(status: Status, done: Done) -> Json<Self> {
        Json(Self { status: status.as_str(), replayed: done.replayed })
    }
}

async fn put_stock<S: Database>(
    State(inventory): State<Inventory<S>>,
    path: Result<Path<(String, String)>, PathRejection>,
    wanted: Result<Json<Wanted>, JsonRejection>,
) -> Result<Json<Shown>, Problem> {
    let (product_id, sku_id) = checked(path)?;
    let Json(Wanted { stock }) = wanted?;
    if !(0..=PIECES).contains(&stock) {
        return Err(Error::invalid("stock", format!("must be 0 to {PIECES}, is {stock}")).into());
    }
    Ok(inventory.put(&product_id, &sku_id, stock).await?.into())
}

async fn show_stock<S: Database>(
    State(inventory): State<Inventory<S>>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<Shown>, Problem> {
    let (product_id, sku_id) = checked(path)?;
    match inventory.stock(&product_id, &sku_id).await? {
        Some(stock) => Ok(stock.into()),
        None => {
            let detail = format!("there is no product {product_id:?} with SKU {sku_id:?}");
            Err(Problem::new(StatusCode::NOT_FOUND, "notFound", detail))
        }
    }
}

fn checked(path: Result<Path<(String, String)>, PathRejection>) -> Result<(String, String), Problem> {
    let Path((product_id, sku_id)) = path?;
    check_id("productId", &product_id)?;
    check_id("skuId", &sku_id)?;
    Ok((product_id, sku_id))
}

async fn deduct<S: Database>(
    State(inventory): State<Inventory<S>>,
    headers: HeaderMap,
    deduction: Result<Json<Deduction>, JsonRejection>,
) -> Result<Json<Answer>, Problem> {
    let Json(Deduction { order_id, product_ids, sku_ids, quantities, idempotency_key }) = deduction?;
    let strings = |ids: Vec<Id>| ids.into_iter().map(String::from).collect();
    let batch = Batch::new(order_id.into(), strings(product_ids), strings(sku_ids), quantities)?;
    let key = key(&headers, idempotency_key)?.unwrap_or_else(|| batch.default_key());
    check_key(&key)?;
    let done = to_the_end(async move { inventory.deduct(&key, &batch).await }).await?;
    Ok(Answer::new(Status::Success, done))
}

async fn release<S: Database>(
    State(inventory): State<Inventory<S>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<Answer>, Problem> {
    let Path(key) = path?;
    check_key(&key)?;
    let done = to_the_end(async move { inventory.release(&key).await }).await?;
    Ok(Answer::new(Status::Released, done))
}

async fn show_audit<S: Database + Books>(State(inventory): State<Inventory<S>>) -> Result<Json<Report>, Problem> {
    Ok(Json(audit::audit(inventory.shards()).await?))
}

/// The key of the caller: from the header, from the body, or the same in both.
fn key(headers: &HeaderMap, in_body: Option<String>) -> Result<Option<String>, Error> {
    let invalid = |message: &str| Err(Error::invalid("idempotencyKey", message));
    let mut in_header = headers.get_all(KEY_HEADER).iter();
    let (first, more) = (in_header.next(), in_header.next());
    if more.is_some() {
        return invalid("is in more than one header: send one");
    }
    let Some(first) = first else {
        return Ok(in_body);
    };
    let Ok(first) = std::str::from_utf8(first.as_bytes()) else {
        return invalid("in the header must be UTF-8");
    };
    match in_body {
        Some(other) if other != first => invalid("differs between header and body"),
        _ => Ok(Some(first.to_owned())),
    }
}

/// Runs in its own task. If the caller disconnected and the future were dropped, other requests with this key would
/// wait for the lease.
async fn to_the_end(work: impl Future<Output = Result<Done, Error>> + Send + 'static) -> Result<Done, Error> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::Corrupt(format!("the work stopped: {error}"))),
    }
}
