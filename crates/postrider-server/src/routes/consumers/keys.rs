//! Keys of a consumer behind a dead event: let them go on, or stop them again.

use axum::Json;
use axum::extract::State;
use postrider::Via;
use postrider::limits::{ERROR_CHARS, KEY_CHARS};
use postrider::store::access::explain;
use postrider::store::{DeadHead, DeadKey};
use postrider::subscription::RABBITMQ;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Known, unknown};
use crate::App;
use crate::auth::Caller;
use crate::input::{self, Body, Path};
use crate::problem::Problem;
use crate::view::At;

/// Keys of one consumer that are shown: more than a person goes through.
const KEYS: u32 = 50;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(skip)).routes(routes!(hold))
}

/// A key with a dead event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeadKey)]
pub(super) struct KeyView {
    key: String,
    dead_head: DeadHeadView,
    /// The first dead event of the key, and its topic.
    event_id: String,
    topic: String,
    /// Dead deliveries of the key.
    dead: u32,
    /// Deliveries behind the first dead one, at most 1,000.
    waiting: u32,
    /// Since when it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped_at: Option<At>,
}

/// What a dead event does to the later ones of its key.
#[derive(Serialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schema(as = KeyDeadHead)]
pub(super) enum DeadHeadView {
    /// They wait.
    Hold,
    /// They go on.
    Skip,
}

impl From<DeadKey> for KeyView {
    fn from(one: DeadKey) -> Self {
        Self {
            key: one.key,
            dead_head: match one.rule {
                DeadHead::Hold => DeadHeadView::Hold,
                DeadHead::Skip => DeadHeadView::Skip,
            },
            event_id: one.event_id,
            topic: one.topic,
            dead: one.dead,
            waiting: one.waiting,
            skipped_at: one.skipped_at.map(Into::into),
        }
    }
}

/// The keys of a consumer that wait behind a dead event, and those that a person lets go on.
pub(super) async fn of_consumer(app: &App, consumer: &str) -> Result<(Vec<KeyView>, Vec<KeyView>), Problem> {
    let keys = app.store.dead_keys(consumer, KEYS).await?;
    let (skipped, held): (Vec<_>, Vec<_>) = keys.into_iter().partition(|one| one.rule == DeadHead::Skip);
    // Where the lane goes on behind every dead event, none is held; nor is a key without a later event.
    let held = held.into_iter().filter(|one| one.waiting > 0 && app.options.dead_head == DeadHead::Hold);
    Ok((held.map(Into::into).collect(), skipped.into_iter().map(Into::into).collect()))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = KeyChange)]
struct KeyIn {
    /// The key.
    #[schema(min_length = 1, max_length = 256)]
    key: String,
    /// Why, for the audit.
    #[schema(min_length = 1, max_length = 1000)]
    reason: String,
}

/// Let the later events of a key go on without its dead ones
///
/// In their order, beginning within one look of the relays. It is about the deliveries that are dead now: one that dies later stops
/// the key again, and a redriven one has its place in front again.
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/keys/skip", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer, or `rabbitmq` for the lane to the broker.")), request_body = KeyIn,
    responses(
        (status = 200, description = "It goes on, or did already.", body = KeyView),
        (status = 409, description = "`noDeadHead`: no event of the key is dead. `noLane`: its events do not wait here.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn skip(
    State(app): State<App>,
    caller: Caller,
    Path(consumer): Path<String>,
    Body(wanted): Body<KeyIn>,
) -> Result<Json<KeyView>, Problem> {
    change(&app, &caller, &consumer, &wanted, DeadHead::Skip).await
}

/// Stop a key behind its dead events again
///
/// What a worker has already goes on.
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/keys/hold", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer, or `rabbitmq` for the lane to the broker.")), request_body = KeyIn,
    responses(
        (status = 200, description = "It waits, or did already.", body = KeyView),
        (status = 409, description = "`noDeadHead`: no event of the key is dead. `noLane`: its events do not wait here. `deadHeadSkips`: by `ordering.dead-head` every key goes on.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn hold(
    State(app): State<App>,
    caller: Caller,
    Path(consumer): Path<String>,
    Body(wanted): Body<KeyIn>,
) -> Result<Json<KeyView>, Problem> {
    change(&app, &caller, &consumer, &wanted, DeadHead::Hold).await
}

async fn change(
    app: &App,
    caller: &Caller,
    consumer: &str,
    wanted: &KeyIn,
    rule: DeadHead,
) -> Result<Json<KeyView>, Problem> {
    input::short("key", &wanted.key, KEY_CHARS)?;
    input::short("reason", &wanted.reason, ERROR_CHARS)?;
    lane(app, caller, consumer).await?;
    if rule == DeadHead::Hold && app.options.dead_head == DeadHead::Skip {
        let why = "every key goes on behind a dead event here: ordering.dead-head is skip";
        return Err(Problem::conflict("deadHeadSkips", why));
    }
    explain(Some(&wanted.reason), Some(&format!("key={}", wanted.key)));
    let changed = app.store.set_dead_head(consumer, &wanted.key, rule).await?;
    let changed = changed.ok_or_else(|| {
        Problem::conflict("noDeadHead", format!("no event of the key {} is dead for {consumer}", wanted.key))
    })?;
    app.waiting.look();
    Ok(Json(changed.into()))
}

/// Refuses a consumer whose events do not wait in a lane of its own. The lane to the broker has a name that no consumer has.
async fn lane(app: &App, caller: &Caller, consumer: &str) -> Result<(), Problem> {
    if consumer == RABBITMQ {
        return if caller.scope.is_everything() { Ok(()) } else { Err(unknown(consumer)) };
    }
    let via = Known::owned(app, caller, consumer).await?.via;
    if via.has_own_lane() {
        return Ok(());
    }
    let means = if via == Via::RabbitMq {
        "from a queue of the broker, where nothing waits behind a dead event: what waits for the broker itself is in the lane rabbitmq"
    } else {
        "by its own means"
    };
    Err(Problem::conflict("noLane", format!("{consumer} gets its events {means}")))
}
