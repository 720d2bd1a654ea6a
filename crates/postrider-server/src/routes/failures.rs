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
}

impl From<FailureGroup> for GroupView {
    fn from(group: FailureGroup) -> Self {
        Self {
            consumer_id: group.consumer,
            fingerprint: group.fingerprint,
            error_code: group.code,
            count: group.events,
            dead: group.dead,
            first: group.first_at.into(),
            last: group.last_at.into(),
            sample: group.sample,
            sample_event_id: group.sample_event_id,
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
