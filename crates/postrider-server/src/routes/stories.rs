//! The story of a business key.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use postrider::Aggregate;
use postrider::limits::{KEY_CHARS, LABEL_CHARS};
use postrider::status::ConsumerState;
use postrider::store::StoredKey;
use postrider::story::{self, Asset, Figures, Story, StoryEffect, StoryEvent, Subject, Undone};
use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::auth::{Caller, PayloadShown};
use crate::input::{self, Query};
use crate::problem::Problem;
use crate::view::{AnyJson, At, ConsumptionView, DeliveryView, EventSummary, LaneAttempts, consumptions, deliveries};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Everything about one business key.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Story)]
struct StoryView {
    /// What was asked for: the key, or the id of the aggregate.
    key: String,
    /// The aggregate that it is about, if its events name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_id: Option<String>,
    /// By the time at which they occurred.
    events: Vec<StoryEventView>,
    /// What each asset has gained or lost, in the order of their first effect.
    assets: Vec<AssetView>,
    /// The rows of the idempotency keys that its effects name. None for a token with a scope: these rows belong to no tenant.
    idempotency: Vec<IdempotencyView>,
    figures: FiguresView,
    /// Whether there are more events, of which these are the newest.
    cut: bool,
}

/// An event, with what became of it and what its consumers did.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StoryEvent)]
struct StoryEventView {
    #[serde(flatten)]
    event: EventSummary,
    /// By consumer: what each did, or what it still has to do. A consumer may have several.
    effects: Vec<StoryEffectView>,
    /// Whether it undoes effects of other events.
    compensation: bool,
    /// The consumers that it is expected to reach.
    consumers: Vec<String>,
    /// Every attempt.
    consumptions: Vec<ConsumptionView>,
    /// What still waits.
    deliveries: Vec<DeliveryView>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EffectState)]
enum StateView {
    Done,
    Retrying,
    Dead,
    Waiting,
}

/// What one consumer did about one event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StoryEffect)]
struct StoryEffectView {
    consumer_id: String,
    state: StateView,
    /// What it did, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<String>,
    /// What has gained or lost by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    asset: Option<String>,
    /// How much: a decimal number with its sign, and perhaps words after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<String>,
    /// The events whose effects it undoes, or the keys that it names if none of these events has such an effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    undoes: Vec<String>,
    /// When it was undone; `waiting` while the compensation is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    undone_at: Option<String>,
    /// Its business key, or the event's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    /// `PROCESSING`, `SUCCESS` or `FAILED`.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_state: Option<String>,
    /// Attempts of the consumer at the event.
    attempts: u32,
    /// How often its inbox has stopped the event.
    repeats_stopped: u32,
    /// Whether another consumer had the same effect before, under the same business key: this one changed nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    again: bool,
    /// When it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<At>,
    /// When it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<At>,
    /// The result that the consumer has kept, if that names no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnyJson, required = false)]
    result: Option<AnyJson>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StoryAsset)]
struct AssetView {
    asset: String,
    /// The sum of what has happened; absent if a delta is no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    net: Option<String>,
    /// Whether the sum is 0.
    balanced: bool,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = IdempotencyRow)]
struct IdempotencyView {
    scope: String,
    key: String,
    /// `PROCESSING`, `SUCCESS` or `FAILED`.
    status: String,
    updated_at: At,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StoryFigures)]
struct FiguresView {
    events: u64,
    /// Effects that have happened.
    effects: u64,
    attempts: u64,
    /// Repeats that an inbox has stopped.
    repeats_stopped: u64,
    /// Effects that happened twice.
    twice: u64,
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// The key of the events.
    #[param(min_length = 1, max_length = 256)]
    key: Option<String>,
    /// The type of their aggregate, with `aggregateId`.
    #[param(min_length = 1, max_length = 128)]
    aggregate_type: Option<String>,
    #[param(min_length = 1, max_length = 128)]
    aggregate_id: Option<String>,
}

impl Wanted {
    fn subject(self) -> Result<Subject, Problem> {
        let missing = |field| {
            Problem::bad_query(field, "is needed: a story is about a key, or about aggregateType and aggregateId")
        };
        match (self.key, self.aggregate_type, self.aggregate_id) {
            (Some(key), None, None) => {
                input::short("key", &key, KEY_CHARS).map_err(Problem::in_query)?;
                Ok(Subject::Key(key))
            }
            (None, Some(kind), Some(id)) => {
                input::short("aggregateType", &kind, LABEL_CHARS).map_err(Problem::in_query)?;
                input::short("aggregateId", &id, LABEL_CHARS).map_err(Problem::in_query)?;
                Ok(Subject::Aggregate(Aggregate::new(kind, id)))
            }
            (Some(_), ..) => Err(Problem::bad_query("key", "must not be given with an aggregate")),
            (None, Some(_), None) => Err(missing("aggregateId")),
            (None, None, Some(_)) => Err(missing("aggregateType")),
            (None, None, None) => Err(missing("key")),
        }
    }
}

/// Everything about one business key
///
/// Its events with their deliveries and attempts, what each consumer did, the repeats that were stopped, and what compensations have
/// undone. At most 200 events.
#[utoipa::path(get, path = "/api/v1/stories", tag = "events", params(Wanted),
    responses(
        (status = 200, description = "The story.", body = StoryView),
        (status = 404, description = "No event has this key or this aggregate, or they are older than the retention.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn show(State(app): State<App>, caller: Caller, Query(wanted): Query<Wanted>) -> Result<Response, Problem> {
    let subject = wanted.subject()?;
    let told = story::read(&*app.store, &subject, &caller.scope).await?;
    if told.events.is_empty() {
        return Err(Problem::not_found(
            "no event has this key or this aggregate, or they are older than the retention",
        ));
    }
    let lanes = LaneAttempts::read(&app).await?;
    let Story { aggregate, events, keys, assets, figures, cut } = told;
    let (aggregate_type, aggregate_id) = aggregate.map(|one| (one.kind, one.id)).unzip();
    let shows_results = events.iter().flat_map(|event| &event.effects).any(|effect| effect.result.is_some());
    let view = StoryView {
        key: match subject {
            Subject::Key(key) => key,
            Subject::Aggregate(aggregate) => aggregate.id,
        },
        aggregate_type,
        aggregate_id,
        events: events.into_iter().map(|event| event_view(&app, &caller, &lanes, event)).collect(),
        assets: assets.into_iter().map(Into::into).collect(),
        idempotency: keys.into_iter().map(Into::into).collect(),
        figures: figures.into(),
        cut,
    };
    let mut response = Json(view).into_response();
    if shows_results {
        response.extensions_mut().insert(PayloadShown);
    }
    Ok(response)
}

fn event_view(app: &App, caller: &Caller, lanes: &LaneAttempts, told: StoryEvent) -> StoryEventView {
    StoryEventView {
        event: (&told.record).into(),
        effects: told.effects.into_iter().map(|effect| effect_view(app, caller, effect)).collect(),
        compensation: told.compensation,
        consumers: told.consumers,
        consumptions: consumptions(&told.record),
        deliveries: deliveries(&told.record, lanes),
    }
}

fn effect_view(app: &App, caller: &Caller, one: StoryEffect) -> StoryEffectView {
    let told = one.effect.unwrap_or_default();
    StoryEffectView {
        consumer_id: one.consumer,
        state: match one.state {
            ConsumerState::Ok => StateView::Done,
            ConsumerState::Retrying => StateView::Retrying,
            ConsumerState::Failed => StateView::Dead,
            ConsumerState::Waiting => StateView::Waiting,
        },
        effect: Some(told.effect).filter(|effect| !effect.is_empty()),
        asset: told.asset,
        delta: told.delta,
        undoes: one.undoes,
        undone_at: one.undone.and_then(|undone| match undone {
            Undone::At(at) => at.to_offset(time::UtcOffset::UTC).format(&Rfc3339).ok(),
            Undone::Waits => Some("waiting".into()),
        }),
        idempotency_key: one.idempotency_key,
        key_state: one.key_state,
        attempts: one.attempts,
        repeats_stopped: one.repeats_stopped,
        again: one.again,
        at: one.at.map(Into::into),
        due_at: one.due_at.map(Into::into),
        result: one.result.map(|result| AnyJson::of(&app.masked(caller, result), true)),
    }
}

impl From<Asset> for AssetView {
    fn from(one: Asset) -> Self {
        Self { asset: one.asset, net: one.net, balanced: one.balanced }
    }
}

impl From<StoredKey> for IdempotencyView {
    fn from(one: StoredKey) -> Self {
        Self { scope: one.scope, key: one.key, status: one.status, updated_at: one.updated_at.into() }
    }
}

impl From<Figures> for FiguresView {
    fn from(figures: Figures) -> Self {
        let Figures { events, effects, attempts, repeats_stopped, twice } = figures;
        Self { events, effects, attempts, repeats_stopped, twice }
    }
}
