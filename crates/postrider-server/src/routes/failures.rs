//! Failures of open events, grouped by consumer and kind of error.

use axum::Json;
use axum::extract::State;
use postrider::failures::{FailureGroup, failures};
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

/// Failures of one consumer that differ in numbers and ids only.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FailureGroup)]
struct GroupView {
    /// Always the same for this consumer and kind of error; a filter for events takes it as `failureGroup`.
    group_id: String,
    consumer_id: String,
    /// What they have in common.
    fingerprint: String,
    /// The code that came with the newest.
    error_code: Option<String>,
    /// How many events.
    count: u64,
    /// Those of them that will not be tried again by themselves.
    dead: u64,
    first: At,
    last: At,
    /// The newest error, as it was.
    sample: String,
    sample_event_id: String,
    /// How many of the last failures fell into each of the last 24 hours, the current one last.
    hours: Vec<u64>,
    /// The topics, those with most events first; 20 at most.
    topics: Vec<TopicShare>,
    /// Later events of the same keys, which wait behind those that are dead. Counted for 100 keys at most.
    held: u64,
}

/// How many events of a topic.
#[derive(Serialize, ToSchema)]
struct TopicShare {
    topic: String,
    count: u64,
}

impl From<FailureGroup> for GroupView {
    fn from(group: FailureGroup) -> Self {
        Self {
            group_id: group.id,
            consumer_id: group.consumer,
            fingerprint: group.fingerprint,
            error_code: group.code,
            count: group.events,
            dead: group.dead,
            first: group.first_at.into(),
            last: group.last_at.into(),
            sample: group.sample,
            sample_event_id: group.sample_event_id,
            hours: group.hours.to_vec(),
            topics: group.topics.into_iter().map(|(topic, count)| TopicShare { topic, count }).collect(),
            held: group.held,
        }
    }
}

#[derive(Serialize, ToSchema)]
struct FailureGroups {
    /// The largest first.
    groups: Vec<GroupView>,
    /// Whether there are more open events than were looked at: then counts are at least so many.
    cut: bool,
}

/// What stands open after a failure, by consumer and kind of error
#[utoipa::path(get, path = "/api/v1/failures", tag = "operations",
    responses((status = 200, description = "The groups.", body = FailureGroups)))]
async fn list(State(app): State<App>, caller: Caller) -> Result<Json<FailureGroups>, Problem> {
    let found = failures(&*app.store, &caller.scope).await?;
    Ok(Json(FailureGroups { groups: found.groups.into_iter().map(Into::into).collect(), cut: found.cut }))
}
