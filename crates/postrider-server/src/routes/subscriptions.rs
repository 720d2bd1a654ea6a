//! Subscriptions: which consumer gets which topic, and how.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postrider::presence::SubscriptionProblem;
use postrider::store::LIVE;
use postrider::subscription::{EVERY_TOPIC, StoredSubscription};
use postrider::{Subscription, Via};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::auth::Detail;
use crate::input::{Body, Path, Query, is_name};
use crate::problem::Problem;
use crate::view::At;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(set, remove))
}

/// How a consumer gets its events.
#[derive(Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Via)]
enum ViaView {
    /// A consumer registered in code.
    Local,
    /// Fetches its events by claim and settle.
    Pull,
    /// Is called over HTTP.
    Webhook,
    /// Reads a queue of the broker.
    RabbitMq,
    /// Gets the event by its own means, and reports.
    External,
}

impl From<ViaView> for Via {
    fn from(via: ViaView) -> Self {
        match via {
            ViaView::Local => Self::Local,
            ViaView::Pull => Self::Pull,
            ViaView::Webhook => Self::Webhook,
            ViaView::RabbitMq => Self::RabbitMq,
            ViaView::External => Self::External,
        }
    }
}

/// One consumer's interest in one topic.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Subscription)]
struct SubscriptionView {
    topic: String,
    consumer_id: String,
    enabled: bool,
    sort_order: i32,
    description: Option<String>,
    #[schema(value_type = ViaView)]
    via: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routing_key: Option<String>,
    created_at: At,
    updated_at: At,
    /// Why the broker does not bring its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl SubscriptionView {
    fn of(stored: StoredSubscription, problem: Option<String>) -> Self {
        let said = stored.subscription;
        Self {
            topic: said.topic,
            consumer_id: said.consumer,
            enabled: said.enabled,
            sort_order: said.sort_order,
            description: said.description,
            via: said.via.as_str(),
            endpoint: said.endpoint,
            exchange: said.exchange,
            routing_key: said.routing_key,
            created_at: stored.created_at.into(),
            updated_at: stored.updated_at.into(),
            problem,
        }
    }
}

#[derive(Serialize, ToSchema)]
struct Subscriptions {
    subscriptions: Vec<SubscriptionView>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// Of this topic only; `*` for those to every topic.
    #[param(pattern = r"^(\*|[A-Za-z0-9._-]{1,128})$")]
    topic: Option<String>,
}

/// The subscriptions, by topic, order and consumer
#[utoipa::path(get, path = "/api/v1/subscriptions", tag = "subscriptions", params(Wanted),
    responses((status = 200, description = "The subscriptions.", body = Subscriptions)))]
async fn list(State(app): State<App>, Query(wanted): Query<Wanted>) -> Result<Json<Subscriptions>, Problem> {
    if wanted.topic.as_deref().is_some_and(|topic| topic != EVERY_TOPIC && !is_name(topic)) {
        return Err(Problem::bad_query("topic", "must be 1 to 128 of A-Z a-z 0-9 . _ -, or *"));
    }
    let stored = app.store.subscriptions(wanted.topic.as_deref()).await?;
    // Only the instance that keeps the queues knows what is wrong; it tells the others.
    let instances = if app.options.broker.is_some() { app.store.instances(LIVE).await? } else { Vec::new() };
    let problems: Vec<_> = instances.iter().flat_map(|one| &one.running.problems).collect();
    let view = |stored: StoredSubscription| {
        let said = &stored.subscription;
        let here = app.options.broker.as_ref().and_then(|broker| broker.problem(&said.topic, &said.consumer));
        let is_of = |one: &&&SubscriptionProblem| (&one.topic, &one.consumer) == (&said.topic, &said.consumer);
        let problem = here.or_else(|| problems.iter().find(is_of).map(|one| one.problem.clone()));
        SubscriptionView::of(stored, problem)
    };
    Ok(Json(Subscriptions { subscriptions: stored.into_iter().map(view).collect() }))
}

/// What a subscription says; what is left out has its default, not what it had before.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewSubscription)]
struct SubscriptionIn {
    /// Whether events are delivered; true where it is missing.
    enabled: Option<bool>,
    /// Where it stands in lists.
    #[serde(default)]
    sort_order: i32,
    /// What for.
    description: Option<String>,
    /// How the consumer gets its events; where it is missing: `webhook` with an endpoint, else `rabbitmq` when there is a
    /// broker, else `pull`.
    via: Option<ViaView>,
    /// Where a webhook goes.
    endpoint: Option<String>,
    /// The broker's exchange, where it is not the usual one.
    exchange: Option<String>,
    /// The broker's routing key, where it is not the topic.
    routing_key: Option<String>,
}

/// Subscribe a consumer to a topic, or change how
///
/// It counts for events that are written from now on. The queue of a consumer by `rabbitmq` is declared and bound before the
/// answer, unless `problem` says why not.
#[utoipa::path(put, path = "/api/v1/subscriptions/{topic}/{consumerId}", tag = "subscriptions",
    params(("topic" = String, Path, description = "A topic, or `*`."), ("consumerId" = String, Path, description = "The consumer.")),
    request_body = SubscriptionIn,
    responses(
        (status = 200, description = "As it is stored.", body = SubscriptionView),
        (status = 409, description = "`webhookSecretMissing`: this server cannot sign webhooks.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn set(
    State(app): State<App>,
    Path((topic, consumer)): Path<(String, String)>,
    Body(said): Body<SubscriptionIn>,
) -> Result<Response, Problem> {
    let via = match (said.via, &said.endpoint) {
        (Some(via), _) => via.into(),
        (None, Some(_)) => Via::Webhook,
        (None, None) if app.options.broker.is_some() => Via::RabbitMq,
        (None, None) => Via::Pull,
    };
    let mut subscription = Subscription::new(topic, consumer, via);
    subscription.enabled = said.enabled.unwrap_or(true);
    subscription.sort_order = said.sort_order;
    subscription.description = said.description;
    subscription.endpoint = said.endpoint;
    subscription.exchange = said.exchange;
    subscription.routing_key = said.routing_key;
    subscription.check()?;
    if via == Via::Webhook && !app.options.webhooks {
        let detail = "this server has no secret to sign webhooks with: set `webhook.secret` and start it again";
        return Err(Problem::conflict("webhookSecretMissing", detail));
    }
    if let Some(endpoint) = subscription.endpoint.as_deref().filter(|_| via == Via::Webhook)
        && !(endpoint.starts_with("https://") || endpoint.starts_with("http://"))
    {
        return Err(Problem::invalid("endpoint", "must begin with https:// (or http:// where that is allowed)"));
    }
    // Before it is written: events written after it find the queue. If the broker is away, the queue is declared before
    // anything is published.
    let declared = match &app.options.broker {
        Some(broker) => broker.declare(&subscription).await,
        None => Ok(()),
    };
    app.store.set_subscription(&subscription).await?;
    let stored = app.store.subscriptions(Some(&subscription.topic)).await?;
    let stored = stored.into_iter().find(|one| one.subscription.consumer == subscription.consumer);
    let stored = stored.ok_or_else(|| Problem::not_found("it was removed meanwhile"))?;
    let detail = format!("enabled={} via={}", stored.subscription.enabled, stored.subscription.via.as_str());
    let mut response = Json(SubscriptionView::of(stored, declared.err())).into_response();
    response.extensions_mut().insert(Detail(detail));
    Ok(response)
}

/// Remove a subscription; a restart of its consumer does not bring it back
#[utoipa::path(delete, path = "/api/v1/subscriptions/{topic}/{consumerId}", tag = "subscriptions",
    params(("topic" = String, Path, description = "A topic, or `*`."), ("consumerId" = String, Path, description = "The consumer.")),
    responses((status = 204, description = "Removed.")))]
async fn remove(
    State(app): State<App>,
    Path((topic, consumer)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let is_possible = (topic == EVERY_TOPIC || is_name(&topic)) && is_name(&consumer);
    if is_possible && app.store.remove_subscription(&topic, &consumer).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::not_found(format!("{consumer} is not subscribed to {topic}")))
    }
}
