//! Subscriptions: which consumer gets which topic, and how.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postrider::presence::SubscriptionProblem;
use postrider::redrive::Refusal;
use postrider::store::access::{Role, explain};
use postrider::store::{LIVE, SecretChange, SubscriptionChange, SubscriptionRemoval, Waiting};
use postrider::subscription::{EVERY_TOPIC, StoredSubscription};
use postrider::transport::webhook::{check_endpoint, without_password};
use postrider::{Error, Subscription, Via};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::events::mend;
use crate::App;
use crate::auth::Caller;
use crate::input::{Body, Path, Query, is_name};
use crate::problem::Problem;
use crate::view::At;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, set, remove))
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
    /// Deliveries per second, on each instance at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_per_second: Option<u32>,
    /// How long one try may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_seconds: Option<u32>,
    /// How often a delivery is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    created_at: At,
    updated_at: At,
    /// Its version, for `If-Match`.
    etag: String,
    /// Whether a secret of its own signs its calls. No read shows the secret.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    own_secret: bool,
    /// After a change: how many events of this subscription wait. They are still delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<u64>,
    /// After a change: how many events wait another way than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<u64>,
    /// Why the broker does not bring its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl SubscriptionView {
    /// Only an admin, who may set it, sees the password in an endpoint.
    fn of(app: &App, caller: &Caller, known: &Known, stored: StoredSubscription) -> Self {
        let mut subscription = stored.subscription;
        if caller.role != Role::Admin {
            subscription.endpoint = subscription.endpoint.as_deref().map(without_password);
        }
        let problem = known.problem(app, &subscription);
        let own_secret = known.secrets.contains(&(subscription.topic.clone(), subscription.consumer.clone()));
        Self {
            etag: etag(&subscription),
            topic: subscription.topic,
            consumer_id: subscription.consumer,
            enabled: subscription.enabled,
            sort_order: subscription.sort_order,
            description: subscription.description,
            via: subscription.via.as_str(),
            endpoint: subscription.endpoint,
            exchange: subscription.exchange,
            routing_key: subscription.routing_key,
            rate_per_second: subscription.rate_per_second,
            timeout_seconds: subscription.timeout_seconds,
            max_attempts: subscription.max_attempts,
            created_at: stored.created_at.into(),
            updated_at: stored.updated_at.into(),
            own_secret,
            waiting: None,
            moved: None,
            problem,
        }
    }

    /// The answer, with its version as a header.
    fn answer(self) -> Response {
        let etag = HeaderValue::from_str(&self.etag).ok();
        let mut response = Json(self).into_response();
        response.headers_mut().extend(etag.map(|etag| (header::ETAG, etag)));
        response
    }
}

/// What is known of subscriptions beside their rows.
struct Known {
    /// What the broker's queues lack. Only the instance that keeps the queues knows it; it tells the others.
    problems: Vec<SubscriptionProblem>,
    /// The topic and consumer of those with a secret of their own.
    secrets: HashSet<(String, String)>,
}

impl Known {
    async fn read(app: &App) -> Result<Self, Problem> {
        let instances = if app.options.broker.is_some() { app.store.instances(LIVE).await? } else { Vec::new() };
        let secrets = app.store.webhook_secrets().await?.into_iter().map(|own| (own.topic, own.consumer)).collect();
        Ok(Self { problems: instances.into_iter().flat_map(|one| one.running.problems).collect(), secrets })
    }

    fn problem(&self, app: &App, subscription: &Subscription) -> Option<String> {
        let here =
            app.options.broker.as_ref().and_then(|broker| broker.problem(&subscription.topic, &subscription.consumer));
        let is_of =
            |one: &&SubscriptionProblem| (&one.topic, &one.consumer) == (&subscription.topic, &subscription.consumer);
        here.or_else(|| self.problems.iter().find(is_of).map(|one| one.problem.clone()))
    }
}

fn etag(subscription: &Subscription) -> String {
    format!("\"{}\"", subscription.version())
}

/// The versions in `If-Match`, without quotes. A weak one matches nothing.
fn if_match(headers: &HeaderMap) -> Option<Vec<String>> {
    let lines: Vec<_> = headers.get_all(header::IF_MATCH).iter().collect();
    let versions = lines.iter().flat_map(|line| line.to_str().unwrap_or_default().split(','));
    let versions = versions.map(|version| version.trim().trim_matches('"').to_owned()).collect();
    (!lines.is_empty()).then_some(versions)
}

fn refused(error: Error) -> Problem {
    match error {
        Error::Refused(refusal) => {
            let (code, detail) = (refusal.code(), refusal.to_string());
            match refusal {
                Refusal::Stale => Problem::new(StatusCode::PRECONDITION_FAILED, code, detail),
                Refusal::DeliveriesWait(waiting) => Problem::conflict(code, detail).waiting(waiting),
                _ => Problem::conflict(code, detail),
            }
        }
        error => error.into(),
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
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Subscriptions>, Problem> {
    if wanted.topic.as_deref().is_some_and(|topic| topic != EVERY_TOPIC && !is_name(topic)) {
        return Err(Problem::bad_query("topic", "must be 1 to 128 of A-Z a-z 0-9 . _ -, or *"));
    }
    let mut stored = app.store.subscriptions(wanted.topic.as_deref()).await?;
    stored.retain(|one| caller.scope.has_subscription(&one.subscription));
    let known = Known::read(&app).await?;
    let view = |stored| SubscriptionView::of(&app, &caller, &known, stored);
    Ok(Json(Subscriptions { subscriptions: stored.into_iter().map(view).collect() }))
}

/// One subscription, with its version as `ETag`
#[utoipa::path(get, path = "/api/v1/subscriptions/{topic}/{consumerId}", tag = "subscriptions",
    params(("topic" = String, Path, description = "A topic, or `*`."), ("consumerId" = String, Path, description = "The consumer.")),
    responses((status = 200, description = "The subscription.", body = SubscriptionView)))]
async fn show(
    State(app): State<App>,
    caller: Caller,
    Path((topic, consumer)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let is_possible = (topic == EVERY_TOPIC || is_name(&topic)) && is_name(&consumer);
    let stored = if is_possible { app.store.subscriptions(Some(&topic)).await? } else { Vec::new() };
    let stored = stored.into_iter().find(|one| one.subscription.consumer == consumer);
    let stored = stored.filter(|one| caller.scope.has_subscription(&one.subscription));
    let stored = stored.ok_or_else(|| not_subscribed(&topic, &consumer))?;
    let known = Known::read(&app).await?;
    Ok(SubscriptionView::of(&app, &caller, &known, stored).answer())
}

fn not_subscribed(topic: &str, consumer: &str) -> Problem {
    Problem::not_found(format!("{consumer} is not subscribed to {topic}"))
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
    /// Deliveries per second, on each instance at most; via `local`, `pull` and `webhook`.
    #[schema(minimum = 1, maximum = 100_000)]
    rate_per_second: Option<u32>,
    /// How long one try may take; via `local` and `webhook`.
    #[schema(minimum = 1, maximum = 3_600)]
    timeout_seconds: Option<u32>,
    /// How often a delivery is tried, unless its event says so; via `local`, `pull` and `webhook`.
    #[schema(minimum = 1, maximum = 10_000)]
    max_attempts: Option<u32>,
    /// The consumer's other subscriptions get the same `via` and endpoint.
    #[serde(default)]
    all_topics: bool,
    /// The secret that signs the calls of a webhook instead of the server's: `whsec_` and 24 to 64 bytes in base64. A new one
    /// signs at once, and the one before it beside it for 24 hours. Left out, it stays as it is; `null` removes both. No call
    /// returns it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, write_only, max_length = 100)]
    secret: Option<Option<String>>,
    /// Why, for the audit.
    reason: Option<String>,
}

/// Tells `null` from what is left out.
fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// Subscribe a consumer to a topic, or change how
///
/// It counts for events that are written from now on; what waits is still delivered, also if it is disabled. A consumer has
/// one `via`: if that changes, what waits moves with it. The queue of a consumer by `rabbitmq` is declared and bound before
/// the answer, unless `problem` says why not.
#[utoipa::path(put, path = "/api/v1/subscriptions/{topic}/{consumerId}", tag = "subscriptions",
    params(("topic" = String, Path, description = "A topic, or `*`."), ("consumerId" = String, Path, description = "The consumer."),
        ("If-Match" = Option<String>, Header, description = "Change it only if it has this version; `*`: only if it exists.")),
    request_body = SubscriptionIn,
    responses(
        (status = 200, description = "As it is stored; `ETag` is its version.", body = SubscriptionView),
        (status = 409, description = "`webhookSecretMissing`: this server cannot sign webhooks. `brokerMissing`: it has no broker. `secondVia`: other topics of the consumer have another `via`.", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`stale`: it was changed or removed since it was read.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn set(
    State(app): State<App>,
    caller: Caller,
    Path((topic, consumer)): Path<(String, String)>,
    headers: HeaderMap,
    Body(mut input): Body<SubscriptionIn>,
) -> Result<Response, Problem> {
    let reason = input.reason.take();
    let why = mend::reason(reason.as_deref())?;
    let all_topics = input.all_topics;
    let secret = match input.secret.take() {
        None => SecretChange::Keep,
        Some(None) => SecretChange::Remove,
        Some(Some(text)) => SecretChange::Set(text.parse()?),
    };
    let subscription = input.about(&app, topic, consumer);
    subscription.check()?;
    check_owned(&app, &caller, &subscription.topic, &subscription.consumer, all_topics).await?;
    check_means(&app, &subscription, &secret).await?;
    // Before it is written: events written after it find the queue. If the broker is away, the queue is declared before
    // anything is published.
    let undeclared = declare(&app, &subscription, all_topics).await?;
    let change = SubscriptionChange { subscription, all_topics, if_version: if_match(&headers), secret };
    let said = &change.subscription;
    let all = if all_topics { " allTopics=true" } else { "" };
    explain(why, Some(&format!("enabled={} via={}{all}", said.enabled, said.via.as_str())));
    let changed = app.store.change_subscription(&change).await.map_err(refused)?;
    app.waiting.look();
    let known = Known::read(&app).await?;
    let mut view = SubscriptionView::of(&app, &caller, &known, changed.stored);
    (view.waiting, view.moved, view.problem) = (Some(changed.waiting), Some(changed.moved), undeclared);
    Ok(view.answer())
}

impl SubscriptionIn {
    fn about(self, app: &App, topic: String, consumer: String) -> Subscription {
        let via = match (self.via, &self.endpoint) {
            (Some(via), _) => via.into(),
            (None, Some(_)) => Via::Webhook,
            (None, None) if app.options.broker.is_some() => Via::RabbitMq,
            (None, None) => Via::Pull,
        };
        Subscription {
            enabled: self.enabled.unwrap_or(true),
            sort_order: self.sort_order,
            description: self.description,
            endpoint: self.endpoint,
            exchange: self.exchange,
            routing_key: self.routing_key,
            rate_per_second: self.rate_per_second,
            timeout_seconds: self.timeout_seconds,
            max_attempts: self.max_attempts,
            ..Subscription::new(topic, consumer, via)
        }
    }
}

/// A token changes only subscriptions that lie inside its scope as a whole.
async fn check_owned(app: &App, caller: &Caller, topic: &str, consumer: &str, all_topics: bool) -> Result<(), Problem> {
    let others =
        if all_topics && !caller.scope.is_everything() { app.store.subscriptions(None).await? } else { Vec::new() };
    let others = others.iter().map(|stored| &stored.subscription).filter(|one| one.consumer == consumer);
    let topics = others.map(|one| one.topic.as_str()).chain([topic]);
    if caller.scope.owns_consumer(consumer, topics) { Ok(()) } else { Err(not_subscribed(topic, consumer)) }
}

/// Refuses what this server cannot serve.
async fn check_means(app: &App, subscription: &Subscription, secret: &SecretChange) -> Result<(), Problem> {
    let has_own = async || match secret {
        SecretChange::Set(_) => Ok(true),
        SecretChange::Remove => Ok(false),
        SecretChange::Keep => {
            let known = Known::read(app).await?;
            Ok::<_, Problem>(known.secrets.contains(&(subscription.topic.clone(), subscription.consumer.clone())))
        }
    };
    match subscription.via {
        Via::Webhook if !app.options.webhooks && !has_own().await? => {
            let detail = "this server has no secret to sign webhooks with: give the subscription one (`secret`), or set `webhook.secret`";
            Err(Problem::conflict("webhookSecretMissing", detail))
        }
        Via::Webhook => {
            let endpoint = subscription.endpoint.as_deref().unwrap_or_default();
            let checked = check_endpoint(endpoint, &app.options.webhook_hosts).await;
            checked.map_err(|why| Problem::invalid("endpoint", why))
        }
        Via::RabbitMq if app.options.broker.is_none() => {
            let detail = "this server has no broker: set `broker` and start it again, or choose another `via`";
            Err(Problem::conflict("brokerMissing", detail))
        }
        _ => Ok(()),
    }
}

/// Declares the queue of a subscription through the broker, and with it those of the consumer's other topics. Returns why the
/// broker has not declared it.
async fn declare(app: &App, subscription: &Subscription, all_topics: bool) -> Result<Option<String>, Problem> {
    let Some(broker) = app.options.broker.as_ref().filter(|_| subscription.via == Via::RabbitMq) else {
        return Ok(None);
    };
    if all_topics {
        let others = app.store.subscriptions(None).await?.into_iter().map(|stored| stored.subscription);
        for other in others.filter(|other| other.consumer == subscription.consumer) {
            // The reconciler tries again, and keeps what is wrong as the problem of that subscription.
            let _ = broker.declare(&Subscription { via: Via::RabbitMq, ..other }).await;
        }
    }
    Ok(broker.declare(subscription).await.err())
}

/// What becomes of the deliveries that wait.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = WaitingDeliveries)]
enum WaitingIn {
    /// They are still delivered.
    Deliver,
    /// Each is ended, with the removal as its reason.
    Discard,
}

impl WaitingIn {
    fn detail(self) -> &'static str {
        match self {
            Self::Deliver => "waiting=deliver",
            Self::Discard => "waiting=discard",
        }
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Removal {
    /// What becomes of the deliveries that wait; needed while there are any.
    #[param(inline)]
    waiting: Option<WaitingIn>,
    /// Why, for the audit; needed to discard what waits.
    reason: Option<String>,
}

/// Remove a subscription; a restart of its consumer does not bring it back
///
/// What waits is still delivered, to the end (`waiting=deliver`), or each delivery is ended with a reason that its event shows
/// (`waiting=discard`).
#[utoipa::path(delete, path = "/api/v1/subscriptions/{topic}/{consumerId}", tag = "subscriptions",
    params(("topic" = String, Path, description = "A topic, or `*`."), ("consumerId" = String, Path, description = "The consumer."),
        ("If-Match" = Option<String>, Header, description = "Remove it only if it has this version."), Removal),
    responses(
        (status = 204, description = "Removed."),
        (status = 409, description = "`deliveriesWait`: say what becomes of them; `waiting` is their number.", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`stale`: it was changed since it was read.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn remove(
    State(app): State<App>,
    caller: Caller,
    Path((topic, consumer)): Path<(String, String)>,
    Query(wanted): Query<Removal>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    if !((topic == EVERY_TOPIC || is_name(&topic)) && is_name(&consumer)) {
        return Err(not_subscribed(&topic, &consumer));
    }
    let waiting = wanted.waiting.map(|waiting| match waiting {
        WaitingIn::Deliver => Waiting::Deliver,
        WaitingIn::Discard => Waiting::Discard,
    });
    check_owned(&app, &caller, &topic, &consumer, false).await?;
    let unknown = not_subscribed(&topic, &consumer);
    let reason = mend::reason(wanted.reason.as_deref()).map_err(Problem::in_query)?;
    explain(reason, wanted.waiting.map(WaitingIn::detail));
    let removal = SubscriptionRemoval { topic, consumer, waiting, if_version: if_match(&headers) };
    app.store.end_subscription(&removal).await.map_err(refused)?.ok_or(unknown)?;
    // What was behind a discarded delivery may be due now.
    app.waiting.look();
    Ok(StatusCode::NO_CONTENT)
}
