//! What one consumer did, by time.

use axum::Json;
use axum::extract::State;
use postrider::store::{AttemptList, AttemptPlace};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Known, unknown};
use crate::auth::Caller;
use crate::input::{Path, Query, Time};
use crate::problem::Problem;
use crate::view::ConsumptionView;
use crate::{App, limits};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(attempts))
}

/// An attempt of a consumer, and its event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ConsumerAttempt {
    event_id: String,
    topic: String,
    #[serde(flatten)]
    consumption: ConsumptionView,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Attempts {
    /// The newest first. May be fewer than asked for, or none, and there may be more all the same.
    attempts: Vec<ConsumerAttempt>,
    /// To be sent as `cursor` for the next page; absent on the last page.
    next_cursor: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Attempts at most; 50 where it is missing.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// Where the last page ended.
    cursor: Option<String>,
    /// Consumed at this time or later.
    #[param(value_type = Option<Time>)]
    from: Option<Time>,
    /// Consumed before this time.
    #[param(value_type = Option<Time>)]
    to: Option<Time>,
}

/// The attempts of one consumer, by the time of consumption, newest first
#[utoipa::path(get, path = "/api/v1/consumers/{consumerId}/attempts", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer."), Page),
    responses((status = 200, description = "A page of attempts.", body = Attempts)))]
async fn attempts(
    State(app): State<App>,
    caller: Caller,
    Path(consumer): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<Attempts>, Problem> {
    let limit = page.limit.unwrap_or(limits::PAGE_DEFAULT);
    if !(1..=limits::PAGE_ROWS).contains(&limit) {
        return Err(Problem::bad_query("limit", format!("must be 1 to {}, is {limit}", limits::PAGE_ROWS)));
    }
    let after = page.cursor.as_deref().map(str::parse::<AttemptPlace>).transpose();
    let after = after.map_err(|_| Problem::bad_query("cursor", "is not the nextCursor of a page"))?;
    let (from, to) = (page.from.map(|time| time.0), page.to.map(|time| time.0));
    let found = match caller.scope.has_consumer(&consumer) {
        true => app.store.attempts(&AttemptList { from, to, after, ..AttemptList::of(&consumer, limit) }).await?,
        false => Vec::new(),
    };
    if found.is_empty() {
        // A consumer whose subscriptions are gone keeps its history; without either, the name is wrong.
        let known = Known::find(&app, &consumer).await?;
        if !known.subscriptions.iter().any(|one| caller.scope.has_subscription(one)) {
            return Err(unknown(&consumer));
        }
    }
    let next = found.last().filter(|_| found.len() == limit as usize).map(|last| last.place.to_string());
    let inside = found
        .into_iter()
        .filter(|one| caller.scope.has_topic(&one.topic) && caller.scope.has_tenant(one.tenant_id.as_deref()));
    let attempts = inside.map(|one| ConsumerAttempt {
        event_id: one.event_id,
        topic: one.topic,
        consumption: one.consumption.into(),
    });
    Ok(Json(Attempts { attempts: attempts.collect(), next_cursor: next }))
}
