//! Bulk operations: redrive all matching events, with a dry run, a rate, a ramp, progress, pause and cancel.

mod ask;
mod items;
mod view;

use axum::Json;
use axum::extract::State;
use postrider::store::{OperationState, Steer};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use view::OperationView;

use crate::auth::Caller;
use crate::input::{self, Path, Query};
use crate::problem::Problem;
use crate::{App, limits};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(ask::routes())
        .merge(items::routes())
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(cancel))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct OperationList {
    operations: Vec<OperationView>,
    /// The next page, with the same limit; missing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Most {
    /// Operations at most; 50 where it is missing.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Operations, the newest first
#[utoipa::path(get, path = "/api/v1/operations", tag = "operations", params(Most),
    responses((status = 200, description = "A page of the operations.", body = OperationList)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(most): Query<Most>,
) -> Result<Json<OperationList>, Problem> {
    let limit = most.limit.unwrap_or(limits::PAGE_DEFAULT);
    if !(1..=limits::PAGE_ROWS).contains(&limit) {
        return Err(Problem::bad_query("limit", format!("must be 1 to {}, is {limit}", limits::PAGE_ROWS)));
    }
    let before = most.cursor.as_deref().map(place).transpose()?;
    let operations = app.store.operations(before, limit).await?;
    let last = operations.last().map(|one| one.number.to_string());
    let next_cursor = last.filter(|_| operations.len() == limit as usize);
    let views = operations.into_iter().map(OperationView::from);
    let operations = views.filter(|one| one.is_within(&caller.scope)).collect();
    Ok(Json(OperationList { operations, next_cursor }))
}

fn place(cursor: &str) -> Result<i64, Problem> {
    let place = cursor.parse().ok().filter(|place| *place > 0);
    place.ok_or_else(|| Problem::bad_query("cursor", "must be a nextCursor of this list"))
}

/// The newest operations.
pub(crate) async fn newest(app: &App, limit: u32) -> postrider::Result<Vec<OperationView>> {
    Ok(app.store.operations(None, limit).await?.into_iter().map(Into::into).collect())
}

/// How an operation stands
#[utoipa::path(get, path = "/api/v1/operations/{operationId}", tag = "operations",
    params(("operationId" = String, Path, description = "Its id.")),
    responses((status = 200, description = "The operation.", body = OperationView)))]
async fn show(State(app): State<App>, caller: Caller, Path(id): Path<String>) -> Result<Json<OperationView>, Problem> {
    Ok(Json(find(&app, &caller, &id).await?))
}

/// The operation with this id, if everything that it touches is inside the caller's scope.
async fn find(app: &App, caller: &Caller, id: &str) -> Result<OperationView, Problem> {
    input::label("operationId", id).map_err(|_| unknown())?;
    let operation = app.store.operation(id).await?.map(OperationView::from);
    operation.filter(|one| one.is_within(&caller.scope)).ok_or_else(unknown)
}

/// Stop an operation for now
#[utoipa::path(post, path = "/api/v1/operations/{operationId}/pause", tag = "operations",
    params(("operationId" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "Paused.", body = OperationView),
        (status = 409, description = "`operationState`: it has ended.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn pause(State(app): State<App>, caller: Caller, Path(id): Path<String>) -> Result<Json<OperationView>, Problem> {
    steer(&app, &caller, &id, Steer::Pause, OperationState::Paused).await
}

/// Go on with an operation
#[utoipa::path(post, path = "/api/v1/operations/{operationId}/resume", tag = "operations",
    params(("operationId" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "Running.", body = OperationView),
        (status = 409, description = "`operationState`: it has ended.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<OperationView>, Problem> {
    steer(&app, &caller, &id, Steer::Resume, OperationState::Running).await
}

/// End an operation where it is; what it has redriven stays redriven
#[utoipa::path(post, path = "/api/v1/operations/{operationId}/cancel", tag = "operations",
    params(("operationId" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "Cancelled.", body = OperationView),
        (status = 409, description = "`operationState`: it has come to its end.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<OperationView>, Problem> {
    steer(&app, &caller, &id, Steer::Cancel, OperationState::Cancelled).await
}

async fn steer(
    app: &App,
    caller: &Caller,
    id: &str,
    steer: Steer,
    wanted: OperationState,
) -> Result<Json<OperationView>, Problem> {
    find(app, caller, id).await?;
    let operation = app.store.steer_operation(id, steer).await?.ok_or_else(unknown)?;
    if operation.state == wanted {
        return Ok(Json(operation.into()));
    }
    let detail = format!("it is {}, and cannot become {}", operation.state.as_str(), wanted.as_str());
    Err(Problem::conflict("operationState", detail))
}

fn unknown() -> Problem {
    Problem::not_found("there is no such operation, or it is older than the retention")
}
