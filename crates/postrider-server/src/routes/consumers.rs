//! Consumers: their backlog, pause, resume and rename. Pulling consumers `claim` and `settle`.

mod claim;
mod settle;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postrider::redrive::Refusal;
use postrider::store::LaneCounts;
use postrider::{Error, Via};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::events::mend;
use crate::App;
use crate::auth::Detail;
use crate::input::{Body, Path, is_name};
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .merge(claim::routes())
        .merge(settle::routes())
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(rename))
}

/// A consumer, and what waits for it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Consumer)]
pub(crate) struct ConsumerView {
    pub(crate) consumer_id: String,
    via: String,
    topics: Vec<String>,
    /// Whether any of its subscriptions is enabled.
    enabled: bool,
    paused: bool,
    /// Deliveries that wait or are worked on; None where a broker or its own means bring them.
    lag: Option<u64>,
    /// For how many seconds the oldest that is due has been waiting; None: nothing is.
    oldest_age_seconds: Option<u64>,
    processing: Option<u64>,
    retrying: Option<u64>,
    dead: Option<u64>,
    /// Those that wait behind a dead one of their key.
    held: Option<u64>,
}

#[derive(Serialize, ToSchema)]
struct Consumers {
    consumers: Vec<ConsumerView>,
}

/// The consumers, by name, with what waits for each
#[utoipa::path(get, path = "/api/v1/consumers", tag = "consumers", responses((status = 200, description = "The consumers.", body = Consumers)))]
async fn list(State(app): State<App>) -> Result<Json<Consumers>, Problem> {
    Ok(Json(Consumers { consumers: all(&app).await? }))
}

/// A consumer, and the rules for its deliveries.
#[derive(Serialize, ToSchema)]
struct ConsumerDetail {
    #[serde(flatten)]
    consumer: ConsumerView,
    /// What its subscriptions say of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// When a failed delivery is tried again; None where a broker, its own means or its own program decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryView>,
}

/// The rules for failed deliveries.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RetryPolicy)]
struct RetryView {
    max_attempts: u32,
    cap_seconds: u64,
    jitter: f64,
}

/// One consumer, with what waits for it and its rules
#[utoipa::path(get, path = "/api/v1/consumers/{consumerId}", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")),
    responses((status = 200, description = "The consumer.", body = ConsumerDetail)))]
async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Json<ConsumerDetail>, Problem> {
    let via = via(&app, &id).await?;
    let consumer = all(&app).await?.into_iter().find(|one| one.consumer_id == id);
    let consumer = consumer.ok_or_else(|| unknown(&id))?;
    let subscriptions = app.store.subscriptions(None).await?.into_iter().map(|one| one.subscription);
    let description = subscriptions.filter(|one| one.consumer == id).find_map(|one| one.description);
    // A consumer in code has the options of its program.
    let retry = matches!(via, Via::Pull | Via::Webhook).then(|| RetryView {
        max_attempts: app.options.retry.max_attempts,
        cap_seconds: app.options.retry.cap.as_secs(),
        jitter: app.options.retry.jitter,
    });
    Ok(Json(ConsumerDetail { consumer, description, retry }))
}

fn unknown(consumer: &str) -> Problem {
    Problem::not_found(format!("no consumer {consumer} is subscribed to anything: subscribe it first"))
}

/// Every consumer that is subscribed to anything, by name.
pub(crate) async fn all(app: &App) -> postrider::Result<Vec<ConsumerView>> {
    let (counts, paused) = (app.store.counts().await?, app.store.paused().await?);
    let mut consumers: BTreeMap<String, ConsumerView> = BTreeMap::new();
    for stored in app.store.subscriptions(None).await? {
        let said = stored.subscription;
        let one = consumers.entry(said.consumer.clone()).or_insert_with(|| ConsumerView {
            via: said.via.as_str().into(),
            topics: Vec::new(),
            enabled: false,
            paused: paused.contains(&said.consumer),
            lag: None,
            oldest_age_seconds: None,
            processing: None,
            retrying: None,
            dead: None,
            held: None,
            consumer_id: said.consumer,
        });
        one.topics.push(said.topic);
        one.enabled |= said.enabled;
        if said.via.has_own_lane() {
            let LaneCounts { new, processing, failed, dead, held } =
                counts.get(&one.consumer_id).copied().unwrap_or_default();
            one.lag = Some(new + processing + failed);
            (one.processing, one.retrying, one.dead, one.held) =
                (Some(processing), Some(failed), Some(dead), Some(held));
        }
    }
    let mut consumers: Vec<ConsumerView> = consumers.into_values().collect();
    let lanes: Vec<&str> =
        consumers.iter().filter(|one| one.lag.is_some()).map(|one| one.consumer_id.as_str()).collect();
    let ages: Vec<_> = app.store.oldest_due(&lanes).await?;
    for (one, age) in consumers.iter_mut().filter(|one| one.lag.is_some()).zip(ages) {
        one.oldest_age_seconds = age.map(|age| age.as_secs());
    }
    Ok(consumers)
}

/// How a consumer gets its events.
async fn via(app: &App, consumer: &str) -> Result<Via, Problem> {
    if !is_name(consumer) {
        return Err(unknown(consumer));
    }
    let stored = app.store.subscriptions(None).await?.into_iter();
    stored
        .map(|one| one.subscription)
        .find(|one| one.consumer == consumer)
        .map(|one| one.via)
        .ok_or_else(|| unknown(consumer))
}

/// Stop deliveries to a consumer, on every instance, also after a restart
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/pause", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")),
    responses(
        (status = 204, description = "Paused."),
        (status = 409, description = "`cannotPause`: its events do not wait here.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn pause(State(app): State<App>, Path(consumer): Path<String>) -> Result<StatusCode, Problem> {
    set_paused(&app, &consumer, true).await
}

/// Deliver to a consumer again
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/resume", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")),
    responses(
        (status = 204, description = "Resumed."),
        (status = 409, description = "`cannotPause`: its events do not wait here.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn resume(State(app): State<App>, Path(consumer): Path<String>) -> Result<StatusCode, Problem> {
    set_paused(&app, &consumer, false).await
}

async fn set_paused(app: &App, consumer: &str, paused: bool) -> Result<StatusCode, Problem> {
    let via = via(app, consumer).await?;
    if !via.has_own_lane() {
        let means =
            if via == Via::RabbitMq { "from a queue of the broker: stop reading it" } else { "by its own means" };
        return Err(Problem::conflict("cannotPause", format!("{consumer} gets its events {means}")));
    }
    app.store.set_paused(consumer, paused).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewName)]
struct RenameIn {
    /// The new name.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    to: String,
    /// Why, for the audit.
    reason: Option<String>,
}

/// What was moved to the new name.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Renamed)]
struct RenamedView {
    /// The new name.
    consumer_id: String,
    subscriptions: u64,
    /// Deliveries that wait, are worked on, or are dead.
    deliveries: u64,
    /// Inbox rows: events that are not consumed again.
    received: u64,
    /// Attempts in the history.
    attempts: u64,
}

/// Give a consumer another name
///
/// Subscriptions, deliveries, inbox and history move in one transaction. Rename before a program with the new name starts. If
/// a producer's transaction was open, rename again: what is left moves.
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/rename", tag = "consumers",
    params(("consumerId" = String, Path, description = "The old name.")), request_body = RenameIn,
    responses(
        (status = 200, description = "Renamed.", body = RenamedView),
        (status = 409, description = "`nameInUse`: a consumer has the new name. `brokerQueue`: it reads a queue of the broker.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn rename(
    State(app): State<App>,
    Path(consumer): Path<String>,
    Body(wanted): Body<RenameIn>,
) -> Result<Response, Problem> {
    let why = mend::reason(wanted.reason.as_deref())?;
    let renamed = app.store.rename_consumer(&consumer, &wanted.to).await.map_err(|error| match error {
        Error::Refused(refusal @ Refusal::NoSuchConsumer(_)) => Problem::not_found(refusal.to_string()),
        Error::Refused(refusal) => Problem::conflict(refusal.code(), refusal.to_string()),
        error => error.into(),
    })?;
    app.waiting.look();
    let details: Vec<_> = [Some(format!("to={}", wanted.to)), why].into_iter().flatten().collect();
    let moved = RenamedView {
        consumer_id: wanted.to,
        subscriptions: renamed.subscriptions,
        deliveries: renamed.deliveries,
        received: renamed.received,
        attempts: renamed.attempts,
    };
    let mut response = Json(moved).into_response();
    response.extensions_mut().insert(Detail(details.join(" ")));
    Ok(response)
}
