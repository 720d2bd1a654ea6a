//! One event, and its payload as a file.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use postrider::envelope::Encoding;
use postrider::store::Record;
use postrider::{EventId, Scope, lineage};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::{Caller, PayloadShown};
use crate::input::{Path, Query};
use crate::problem::Problem;
use crate::view::{EventDetail, Fronts, LaneAttempts, PayloadPart};
use crate::{App, broker};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show)).routes(routes!(payload))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Shown {
    /// How much of the payload; all of it where it is missing.
    #[param(inline)]
    #[serde(default)]
    payload: Option<PayloadPart>,
}

/// One event, with every attempt, everything that still waits, what caused it and what it caused
///
/// Payload and metadata are shown to operators and admins; what `server.mask` names, to admins only.
#[utoipa::path(get, path = "/api/v1/events/{eventId}", tag = "events",
    params(("eventId" = String, Path, description = "Its id."), Shown),
    responses((status = 200, description = "The event.", body = EventDetail)))]
async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(shown): Query<Shown>,
) -> Result<Response, Problem> {
    let scope = &caller.scope;
    let mut found = find(&app, scope, &id).await?;
    app.mask(&caller, &mut found.envelope);
    let mut parents = lineage::parents(&*app.store, &found, scope).await?;
    let mut children = lineage::children(&*app.store, &id, scope).await?;
    parents.iter_mut().chain(&mut children).for_each(|record| scope.cut(record));
    let shown = caller.sees_payloads().then_some(shown.payload.unwrap_or_default());
    // Only deliveries show it, and most events that are read have none left.
    let lanes = if found.deliveries.is_empty() { LaneAttempts::default() } else { LaneAttempts::read(&app).await? };
    let fronts = Fronts::read(&app, scope, &found).await?;
    let mut response = Json(EventDetail::of(found, &parents, &children, shown, &lanes, fronts)).into_response();
    if shown.is_some_and(|part| part != PayloadPart::None) {
        response.extensions_mut().insert(PayloadShown);
    }
    Ok(response)
}

/// The payload of an event, as a file
///
/// What `server.mask` names is in it for admins only.
#[utoipa::path(get, path = "/api/v1/events/{eventId}/payload", tag = "events",
    params(("eventId" = String, Path, description = "Its id.")),
    responses((status = 200, description = "Its bytes.", content_type = "application/octet-stream", body = Vec<u8>)))]
async fn payload(State(app): State<App>, caller: Caller, Path(id): Path<String>) -> Result<Response, Problem> {
    let mut event = find(&app, &caller.scope, &id).await?.envelope;
    app.mask(&caller, &mut event);
    // The publisher chose the type of the payload: a browser saves the file, and shows it under no name of ours.
    let is_json = event.is_json() && event.payload_encoding != Encoding::Base64;
    let ending = if is_json { "json" } else { "bin" };
    let name: String = id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let bytes = if event.payload_encoding == Encoding::Base64 {
        STANDARD.decode(&event.payload).map_err(|_| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the stored payload is no base64")
        })?
    } else {
        event.payload.into_bytes()
    };
    let disposition = format!("attachment; filename=\"{name}.{ending}\"");
    let kind = (header::CONTENT_TYPE, "application/octet-stream".to_owned());
    let mut response = ([kind, (header::CONTENT_DISPOSITION, disposition)], bytes).into_response();
    response.extensions_mut().insert(PayloadShown);
    Ok(response)
}

pub(super) fn unknown() -> Problem {
    Problem::not_found("there is no such event: it was never stored, or is older than the retention")
}

/// The event with this id, as a caller with this scope sees it.
pub(in crate::routes) async fn find(app: &App, scope: &Scope, id: &str) -> Result<Record, Problem> {
    // What cannot be an id is answered without a query.
    let id = EventId::new(id).map_err(|_| unknown())?;
    let found = app.store.find(id.as_str()).await?.filter(|record| scope.has_event(record));
    let mut found = found.ok_or_else(unknown)?;
    scope.cut(&mut found);
    broker::explain(app, std::slice::from_mut(&mut found)).await?;
    Ok(found)
}
