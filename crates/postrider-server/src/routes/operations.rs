//! Bulk operations: redrive all matching events, with a dry run, a rate, progress, pause and cancel.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postrider::limits::INITIATOR_BYTES;
use postrider::store::access::explain;
use postrider::store::{NewOperation, Operation, OperationState, Steer};
use postrider::{Scope, operations};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::events::mend::needs_consumer;
use crate::auth::Caller;
use crate::filter::{FilterIn, FilterView};
use crate::input::{self, Body, Path, Query};
use crate::problem::Problem;
use crate::view::At;
use crate::{App, limits};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(cancel))
}

/// What is done to each event.
#[derive(Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OperationKind)]
enum Kind {
    Redrive,
}

/// What to do, to which events.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewOperation)]
struct OperationIn {
    #[expect(dead_code, reason = "there is one kind, and a request names it")]
    kind: Kind,
    /// Which events, of those that are there now.
    filter: FilterIn,
    /// One consumer's part of them only.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    consumer_id: Option<String>,
    /// How many a second at most; as many as go where it is missing.
    #[schema(minimum = 1)]
    rate_per_second: Option<u32>,
    /// Only count what matches.
    #[serde(default)]
    dry_run: bool,
    /// Why, for people; needed unless it is a dry run.
    reason: Option<String>,
}

/// What an operation would look at.
#[derive(Serialize, ToSchema)]
struct DryRun {
    matching: u64,
    /// False: there are at least so many.
    exact: bool,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Created {
    operation_id: String,
}

/// Redrive everything that matches, or count it
///
/// Each event is measured by the rules of a redrive when its turn comes. The operation goes on after a restart, and redrives
/// nothing twice.
#[utoipa::path(post, path = "/api/v1/operations", tag = "operations", request_body = OperationIn,
    responses(
        (status = 202, description = "It will be worked on.", body = Created),
        (status = 200, description = "A dry run: nothing is done.", body = DryRun),
    ))]
async fn create(State(app): State<App>, caller: Caller, Body(wanted): Body<OperationIn>) -> Result<Response, Problem> {
    if wanted.consumer_id.as_deref().is_some_and(|consumer| !input::is_name(consumer)) {
        return Err(Problem::invalid("consumerId", "must be 1 to 128 of A-Z a-z 0-9 . _ -"));
    }
    if wanted.rate_per_second == Some(0) {
        return Err(Problem::invalid("ratePerSecond", "must be 1 or more"));
    }
    match &wanted.reason {
        Some(reason) => input::short("reason", reason, INITIATOR_BYTES / 4)?,
        None if wanted.dry_run => {}
        None => return Err(Problem::invalid("reason", "is needed, for the audit")),
    }
    let scope = &caller.scope;
    let consumer_id = wanted.consumer_id.or_else(|| scope.only_consumer().map(Into::into));
    match &consumer_id {
        Some(consumer) if !scope.has_consumer(consumer) => {
            return Err(needs_consumer("is outside the token's scope"));
        }
        None if !scope.consumers.is_empty() => {
            return Err(needs_consumer("is needed: the token is for some consumers only"));
        }
        _ => {}
    }
    let filter = wanted.filter.into_filter(&app, scope).await?;
    let matching = operations::matching(&*app.store, &filter).await?;
    if wanted.dry_run {
        let counted = DryRun { matching: matching.events, exact: matching.exact };
        explain(wanted.reason.as_deref(), Some(&format!("dryRun matching={}", matching.events)));
        return Ok(Json(counted).into_response());
    }
    let mut new = NewOperation::redrive(uuid::Uuid::now_v7().to_string(), filter);
    new.consumer = consumer_id;
    new.rate_per_second = wanted.rate_per_second;
    new.rules = app.options.redrive;
    new.reason = wanted.reason;
    new.requested_by = Some(caller.name);
    new.total = Some(matching.events);
    explain(new.reason.as_deref(), Some(&format!("operation={} matching={}", new.id, matching.events)));
    let created = app.store.create_operation(&new).await?;
    Ok((StatusCode::ACCEPTED, Json(Created { operation_id: created.request.id })).into_response())
}

/// An operation, and how far it has come.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Operation)]
pub(crate) struct OperationView {
    pub(crate) operation_id: String,
    kind: Kind,
    state: OperationStateView,
    filter: FilterView,
    consumer_id: Option<String>,
    rate_per_second: Option<u32>,
    reason: Option<String>,
    /// The name of the token.
    requested_by: Option<String>,
    /// How many matched when it was asked for.
    total: Option<u64>,
    /// Events redriven.
    done: u64,
    /// Events that a rule forbade although they are not finished.
    failed: u64,
    /// Events that needed nothing any more.
    skipped: u64,
    /// Who works on it, or did last.
    owner: Option<String>,
    created_at: At,
    updated_at: At,
    finished_at: Option<At>,
    #[serde(skip)]
    scope: Scope,
}

impl OperationView {
    /// Whether everything that it touches is inside a scope.
    pub(crate) fn is_within(&self, scope: &Scope) -> bool {
        scope.contains(&self.scope)
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schema(as = OperationState)]
enum OperationStateView {
    Running,
    Paused,
    Cancelled,
    Done,
}

impl From<OperationState> for OperationStateView {
    fn from(state: OperationState) -> Self {
        match state {
            OperationState::Running => Self::Running,
            OperationState::Paused => Self::Paused,
            OperationState::Cancelled => Self::Cancelled,
            OperationState::Done => Self::Done,
        }
    }
}

impl From<Operation> for OperationView {
    fn from(operation: Operation) -> Self {
        let request = operation.request;
        Self {
            operation_id: request.id,
            kind: Kind::Redrive,
            scope: request.filter.scope.clone(),
            state: operation.state.into(),
            filter: request.filter.into(),
            consumer_id: request.consumer,
            rate_per_second: request.rate_per_second,
            reason: request.reason,
            requested_by: request.requested_by,
            total: request.total,
            done: operation.done,
            failed: operation.failed,
            skipped: operation.skipped,
            owner: operation.owner,
            created_at: operation.created_at.into(),
            updated_at: operation.updated_at.into(),
            finished_at: operation.finished_at.map(Into::into),
        }
    }
}

#[derive(Serialize, ToSchema)]
struct OperationList {
    operations: Vec<OperationView>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Most {
    /// Operations at most; 50 where it is missing.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// The newest operations
#[utoipa::path(get, path = "/api/v1/operations", tag = "operations", params(Most),
    responses((status = 200, description = "The operations, the newest first.", body = OperationList)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(most): Query<Most>,
) -> Result<Json<OperationList>, Problem> {
    let limit = most.limit.unwrap_or(limits::PAGE_DEFAULT);
    if !(1..=limits::PAGE_ROWS).contains(&limit) {
        return Err(Problem::bad_query("limit", format!("must be 1 to {}, is {limit}", limits::PAGE_ROWS)));
    }
    let operations = newest(&app, limit).await?.into_iter().filter(|one| one.is_within(&caller.scope));
    Ok(Json(OperationList { operations: operations.collect() }))
}

/// The newest operations.
pub(crate) async fn newest(app: &App, limit: u32) -> postrider::Result<Vec<OperationView>> {
    Ok(app.store.operations(limit).await?.into_iter().map(Into::into).collect())
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
