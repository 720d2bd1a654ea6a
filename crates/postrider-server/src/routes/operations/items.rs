//! The events of an operation, page by page, with what came of each.

use axum::Json;
use axum::extract::State;
use postrider::store::{ItemList, ItemOutcome, OperationItem};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{find, place};
use crate::auth::Caller;
use crate::input::{Path, Query};
use crate::problem::Problem;
use crate::{App, limits};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(items))
}

/// An event of an operation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OperationItem)]
struct ItemView {
    event_id: String,
    outcome: OutcomeView,
    /// The rule that skipped or refused it.
    rule: Option<String>,
    /// The step that took it, counted from 1; missing before its turn.
    step: Option<u32>,
}

/// What an operation has done about an event.
#[derive(Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OperationOutcome)]
enum OutcomeView {
    /// It waits for its turn.
    Planned,
    /// Redriven, without an attempt so far.
    Open,
    Delivered,
    FailedAgain,
    /// It needed nothing any more.
    Skipped,
    /// A rule forbade it.
    Refused,
}

impl From<ItemOutcome> for OutcomeView {
    fn from(outcome: ItemOutcome) -> Self {
        match outcome {
            ItemOutcome::Planned => Self::Planned,
            ItemOutcome::Open => Self::Open,
            ItemOutcome::Delivered => Self::Delivered,
            ItemOutcome::FailedAgain => Self::FailedAgain,
            ItemOutcome::Skipped => Self::Skipped,
            ItemOutcome::Refused => Self::Refused,
        }
    }
}

impl From<OutcomeView> for ItemOutcome {
    fn from(outcome: OutcomeView) -> Self {
        match outcome {
            OutcomeView::Planned => Self::Planned,
            OutcomeView::Open => Self::Open,
            OutcomeView::Delivered => Self::Delivered,
            OutcomeView::FailedAgain => Self::FailedAgain,
            OutcomeView::Skipped => Self::Skipped,
            OutcomeView::Refused => Self::Refused,
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct OperationItems {
    items: Vec<ItemView>,
    /// The next page, with the same outcome; missing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WantedItems {
    /// Those with this outcome.
    outcome: Option<OutcomeView>,
    /// Events at most; 50 where it is missing.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// The events of an operation, the oldest first
#[utoipa::path(get, path = "/api/v1/operations/{operationId}/items", tag = "operations",
    params(("operationId" = String, Path, description = "Its id."), WantedItems),
    responses((status = 200, description = "A page of its events, with what came of each.", body = OperationItems)))]
async fn items(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(wanted): Query<WantedItems>,
) -> Result<Json<OperationItems>, Problem> {
    find(&app, &caller, &id).await?;
    let limit = wanted.limit.unwrap_or(limits::PAGE_DEFAULT);
    if !(1..=limits::PAGE_ROWS).contains(&limit) {
        return Err(Problem::bad_query("limit", format!("must be 1 to {}, is {limit}", limits::PAGE_ROWS)));
    }
    let after = wanted.cursor.as_deref().map(place).transpose()?.unwrap_or_default();
    let outcome = wanted.outcome.map(Into::into);
    let found = app.store.operation_items(&ItemList { operation: id, outcome, after, limit }).await?;
    let last = found.last().map(|item| item.sequence.to_string());
    let next_cursor = last.filter(|_| found.len() == limit as usize);
    let view = |item: OperationItem| ItemView {
        event_id: item.event_id,
        outcome: item.outcome.into(),
        rule: item.rule,
        step: (item.outcome != ItemOutcome::Planned).then_some(item.step + 1),
    };
    Ok(Json(OperationItems { items: found.into_iter().map(view).collect(), next_cursor }))
}
