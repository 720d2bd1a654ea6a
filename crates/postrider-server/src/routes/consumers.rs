//! Consumers: their backlog, pause, resume and rename. Pulling consumers `claim` and `settle`.

mod attempts;
mod claim;
mod keys;
mod settle;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postrider::redrive::Refusal;
use postrider::store::LaneCounts;
use postrider::store::access::explain;
use postrider::subscription::{EVERY_TOPIC, StoredSubscription};
use postrider::{Error, Scope, Subscription, Via};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::keys::KeyView;
use super::events::mend;
use crate::App;
use crate::auth::Caller;
use crate::input::{Body, Path, is_name};
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .merge(attempts::routes())
        .merge(claim::routes())
        .merge(keys::routes())
        .merge(settle::routes())
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(rename))
}

/// A consumer, and what waits for it.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Consumer)]
pub(crate) struct ConsumerView {
    pub(crate) consumer_id: String,
    via: String,
    topics: Vec<String>,
    /// Whether any of its subscriptions is enabled.
    enabled: bool,
    /// Its subscriptions were removed, and something is left in its lane: it is still delivered.
    removed: bool,
    paused: bool,
    /// Deliveries that wait or are worked on; absent for a consumer behind a broker or with means of its own.
    lag: Option<u64>,
    /// For how many seconds the oldest delivery has been due; absent if none is due.
    oldest_age_seconds: Option<u64>,
    processing: Option<u64>,
    retrying: Option<u64>,
    dead: Option<u64>,
    /// Those that wait behind a dead one of their key.
    held: Option<u64>,
    #[serde(skip)]
    has_lane: bool,
}

#[derive(Serialize, ToSchema)]
struct Consumers {
    consumers: Vec<ConsumerView>,
}

/// The consumers, by name, with what waits for each
#[utoipa::path(get, path = "/api/v1/consumers", tag = "consumers", responses((status = 200, description = "The consumers.", body = Consumers)))]
async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Consumers>, Problem> {
    let consumers = all(&app).await?.into_iter().filter_map(|one| one.within(&caller.scope));
    Ok(Json(Consumers { consumers: consumers.collect() }))
}

/// A consumer, and the rules for its deliveries.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ConsumerDetail {
    #[serde(flatten)]
    consumer: ConsumerView,
    /// What its subscriptions say of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// When a failed delivery is tried again; absent where a broker, its own means or its own program decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryView>,
    /// Keys whose events wait behind a dead one, by the age of that; at most 50. Operators and admins see them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<KeyView>, required = false)]
    held_keys: Option<Vec<KeyView>>,
    /// Keys that a person lets go on behind a dead event. Operators and admins see them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<KeyView>, required = false)]
    skipped_keys: Option<Vec<KeyView>>,
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
async fn show(State(app): State<App>, caller: Caller, Path(id): Path<String>) -> Result<Json<ConsumerDetail>, Problem> {
    let known = Known::find(&app, &id).await?;
    let consumer = all(&app).await?.into_iter().find(|one| one.consumer_id == id);
    let consumer = consumer.and_then(|one| one.within(&caller.scope)).ok_or_else(|| unknown(&id))?;
    let description = known.subscriptions.iter().find_map(|one| one.description.clone());
    // A consumer in code has the options of its program.
    let retry = matches!(known.via, Via::Pull | Via::Webhook).then(|| RetryView {
        max_attempts: app.options.retry.max_attempts,
        cap_seconds: app.options.retry.cap.as_secs(),
        jitter: app.options.retry.jitter,
    });
    // Keys are of all topics and tenants, like the figures.
    let topics = known.subscriptions.iter().map(|one| one.topic.as_str());
    let shows_keys = caller.sees_payloads() && known.via.has_own_lane() && caller.scope.owns_consumer(&id, topics);
    let (held_keys, skipped_keys) = if shows_keys { Some(keys::of_consumer(&app, &id).await?) } else { None }.unzip();
    Ok(Json(ConsumerDetail { consumer, description, retry, held_keys, skipped_keys }))
}

fn unknown(consumer: &str) -> Problem {
    Problem::not_found(format!("no consumer {consumer} is subscribed to anything: subscribe it first"))
}

/// Every consumer that is subscribed to anything or for which something waits, by name.
pub(crate) async fn all(app: &App) -> postrider::Result<Vec<ConsumerView>> {
    let (counts, paused) = (app.store.counts().await?, app.store.paused().await?);
    let mut consumers: BTreeMap<String, ConsumerView> = BTreeMap::new();
    for subscription in app.store.subscriptions(None).await?.into_iter().map(|stored| stored.subscription) {
        let one = consumers
            .entry(subscription.consumer.clone())
            .or_insert_with(|| ConsumerView::new(&subscription.consumer, subscription.via));
        one.topics.push(subscription.topic);
        one.enabled |= subscription.enabled;
    }
    let removed = app.store.removed_subscriptions().await?.into_iter().map(|stored| stored.subscription);
    for subscription in removed.filter(|subscription| counts.contains_key(&subscription.consumer)) {
        let gone = || ConsumerView { removed: true, ..ConsumerView::new(&subscription.consumer, subscription.via) };
        consumers.entry(subscription.consumer.clone()).or_insert_with(gone);
    }
    for one in consumers.values_mut() {
        one.paused = paused.contains(&one.consumer_id);
        // What a producer wrote while the `via` changed waits in the lane of a consumer that has none any more.
        if let Some(count) = counts.get(&one.consumer_id).copied().or_else(|| one.has_lane.then(LaneCounts::default)) {
            one.count(count);
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

impl ConsumerView {
    fn new(consumer: &str, via: Via) -> Self {
        Self {
            consumer_id: consumer.into(),
            via: via.as_str().into(),
            topics: Vec::new(),
            enabled: false,
            removed: false,
            paused: false,
            lag: None,
            oldest_age_seconds: None,
            processing: None,
            retrying: None,
            dead: None,
            held: None,
            has_lane: via.has_own_lane(),
        }
    }

    /// As a token with this scope sees it. Its figures are of all topics and tenants: they are shown if all of these are inside.
    pub(crate) fn within(mut self, scope: &Scope) -> Option<Self> {
        let is_whole = scope.owns_consumer(&self.consumer_id, self.topics.iter().map(String::as_str));
        self.topics.retain(|topic| topic == EVERY_TOPIC || scope.has_topic(topic));
        if !is_whole {
            (self.lag, self.oldest_age_seconds, self.processing) = (None, None, None);
            (self.retrying, self.dead, self.held) = (None, None, None);
        }
        (scope.has_consumer(&self.consumer_id) && (is_whole || !self.topics.is_empty())).then_some(self)
    }

    fn count(&mut self, LaneCounts { new, processing, failed, dead, held }: LaneCounts) {
        self.lag = Some(new + processing + failed);
        (self.processing, self.retrying, self.dead, self.held) =
            (Some(processing), Some(failed), Some(dead), Some(held));
    }
}

/// What the subscriptions say about a consumer.
struct Known {
    via: Via,
    /// The smallest rate that its subscriptions name.
    per_second: Option<u32>,
    subscriptions: Vec<Subscription>,
    /// The names of all other consumers.
    others: Vec<String>,
}

impl Known {
    /// By its subscriptions; by the removed ones while something waits in its lane.
    async fn find(app: &App, consumer: &str) -> Result<Self, Problem> {
        if !is_name(consumer) {
            return Err(unknown(consumer));
        }
        let of = |stored: Vec<StoredSubscription>| -> Vec<Subscription> {
            let all = stored.into_iter().map(|stored| stored.subscription);
            all.filter(|one| one.consumer == consumer).collect()
        };
        let all = app.store.subscriptions(None).await?.into_iter().map(|stored| stored.subscription);
        let (mut subscriptions, others): (Vec<_>, Vec<_>) = all.partition(|one| one.consumer == consumer);
        let others = others.into_iter().map(|one| one.consumer).collect();
        if subscriptions.is_empty() && app.store.next_due(&[consumer]).await?.into_iter().flatten().next().is_some() {
            subscriptions = of(app.store.removed_subscriptions().await?);
        }
        let via = subscriptions.first().map(|one| one.via).ok_or_else(|| unknown(consumer))?;
        let per_second = subscriptions.iter().filter_map(|one| one.rate_per_second).min();
        Ok(Self { via, per_second, subscriptions, others })
    }

    /// The consumer, if everything that it gets is inside the caller's scope: what changes it changes all of that.
    async fn owned(app: &App, caller: &Caller, consumer: &str) -> Result<Self, Problem> {
        let known = Self::find(app, consumer).await?;
        let topics = known.subscriptions.iter().map(|one| one.topic.as_str());
        if caller.scope.owns_consumer(consumer, topics) { Ok(known) } else { Err(unknown(consumer)) }
    }

    /// How often a delivery of this topic is tried, if a subscription says so: the topic's own, or the one to every topic.
    fn max_attempts(&self, topic: &str) -> Option<u32> {
        let of = |topic: &str| self.subscriptions.iter().find(|one| one.topic == topic);
        of(topic).and_then(|one| one.max_attempts).or_else(|| of(EVERY_TOPIC)?.max_attempts)
    }
}

/// Stop deliveries to a consumer, on every instance, also after a restart
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/pause", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")),
    responses(
        (status = 204, description = "Paused."),
        (status = 409, description = "`cannotPause`: its events do not wait here.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn pause(State(app): State<App>, caller: Caller, Path(consumer): Path<String>) -> Result<StatusCode, Problem> {
    set_paused(&app, &caller, &consumer, true).await
}

/// Deliver to a consumer again
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/resume", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")),
    responses(
        (status = 204, description = "Resumed."),
        (status = 409, description = "`cannotPause`: its events do not wait here.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn resume(State(app): State<App>, caller: Caller, Path(consumer): Path<String>) -> Result<StatusCode, Problem> {
    set_paused(&app, &caller, &consumer, false).await
}

async fn set_paused(app: &App, caller: &Caller, consumer: &str, paused: bool) -> Result<StatusCode, Problem> {
    let via = Known::owned(app, caller, consumer).await?.via;
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
    caller: Caller,
    Path(consumer): Path<String>,
    Body(wanted): Body<RenameIn>,
) -> Result<Response, Problem> {
    let why = mend::reason(wanted.reason.as_deref())?;
    if !caller.scope.is_everything() {
        Known::owned(&app, &caller, &consumer).await?;
        if !caller.scope.has_consumer(&wanted.to) {
            return Err(Problem::not_found(format!("the name {} is outside the token's scope", wanted.to)));
        }
    }
    explain(why, Some(&format!("to={}", wanted.to)));
    let renamed = app.store.rename_consumer(&consumer, &wanted.to).await.map_err(|error| match error {
        Error::Refused(refusal @ Refusal::NoSuchConsumer(_)) => Problem::not_found(refusal.to_string()),
        Error::Refused(refusal) => Problem::conflict(refusal.code(), refusal.to_string()),
        error => error.into(),
    })?;
    app.waiting.look();
    let moved = RenamedView {
        consumer_id: wanted.to,
        subscriptions: renamed.subscriptions,
        deliveries: renamed.deliveries,
        received: renamed.received,
        attempts: renamed.attempts,
    };
    Ok(Json(moved).into_response())
}
