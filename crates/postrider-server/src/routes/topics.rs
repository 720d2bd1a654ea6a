//! Topics: their events and their subscribers.

use axum::Json;
use axum::extract::State;
use postrider::facets::{self, Topic};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::auth::Caller;
use crate::problem::Problem;
use crate::view::At;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// A topic.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Topic)]
struct TopicView {
    topic: String,
    /// Its stored events.
    events: u64,
    /// When its newest event was stored.
    last_seen_at: Option<At>,
    /// Consumers with an enabled subscription to it, or to all topics.
    subscribers: u32,
    /// Stored events that wait for a subscriber.
    unheard: u64,
    /// Whether all events were counted; otherwise the numbers are estimates.
    exact: bool,
}

impl From<Topic> for TopicView {
    fn from(topic: Topic) -> Self {
        Self {
            topic: topic.topic,
            events: topic.events.value,
            last_seen_at: topic.last_seen_at.map(Into::into),
            subscribers: topic.subscribers,
            unheard: topic.unheard.value,
            exact: topic.events.exact && topic.unheard.exact,
        }
    }
}

#[derive(Serialize, ToSchema)]
struct Topics {
    topics: Vec<TopicView>,
}

/// The topics of all subscriptions and of the newest events, by name
#[utoipa::path(get, path = "/api/v1/topics", tag = "subscriptions",
    responses((status = 200, description = "The topics.", body = Topics)))]
async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Topics>, Problem> {
    let topics = facets::topics(&*app.store, &caller.scope).await?;
    Ok(Json(Topics { topics: topics.into_iter().map(Into::into).collect() }))
}
