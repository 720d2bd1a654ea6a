//! Redrive, expire and discard: what operators do to events.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postrider::limits::{ERROR_CHARS, INITIATOR_BYTES};
use postrider::redrive::Refusal;
use postrider::store::Record;
use postrider::{Error, EventId};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::show::unknown;
use crate::App;
use crate::auth::Detail;
use crate::input::{self, Body, Path};
use crate::problem::Problem;
use crate::view::EventSummary;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(redrive)).routes(routes!(expire)).routes(routes!(discard))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewRedrive)]
struct RedriveIn {
    /// One consumer's part of it only; also of one that was not there when the event was written.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    consumer_id: Option<String>,
    /// Why, for the audit.
    reason: Option<String>,
}

/// Send an event again, to every consumer that is not done, or to one
#[utoipa::path(post, path = "/api/v1/events/{eventId}/redrive", tag = "events",
    params(("eventId" = String, Path, description = "Its id.")), request_body = RedriveIn,
    responses(
        (status = 202, description = "Due now.", body = EventSummary),
        (status = 409, description = "The rule that forbids it is the code: `consumed`, `expired`, `redriveLimit`, `redriveHorizon`, `notSent`, `sentRecently`, `inProgress`, `unknownConsumer` or `external`.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn redrive(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(wanted): Body<RedriveIn>,
) -> Result<Response, Problem> {
    let consumer = wanted.consumer_id.as_deref();
    consumer.map_or(Ok(()), is_consumer)?;
    let why = reason(wanted.reason.as_deref())?;
    let id = EventId::new(&*id).map_err(|_| unknown())?;
    let redriven = app.store.redrive_event(id.as_str(), consumer, &app.options.redrive).await;
    let response = answer(redriven, &[consumer.map(|consumer| format!("consumer={consumer}")), why])?;
    app.waiting.look();
    Ok(response)
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewExpiry)]
struct ExpireIn {
    /// Why, for the audit.
    reason: Option<String>,
}

/// Expire an event by hand: nothing of it is delivered any more
#[utoipa::path(post, path = "/api/v1/events/{eventId}/expire", tag = "events",
    params(("eventId" = String, Path, description = "Its id.")), request_body = ExpireIn,
    responses(
        (status = 202, description = "Expired.", body = EventSummary),
        (status = 409, description = "`consumed`: its effect has happened.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn expire(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(wanted): Body<ExpireIn>,
) -> Result<Response, Problem> {
    let why = reason(wanted.reason.as_deref())?;
    let id = EventId::new(&*id).map_err(|_| unknown())?;
    answer(app.store.expire(id.as_str()).await, &[why])
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewDiscard)]
struct DiscardIn {
    /// Whose delivery of it.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    consumer_id: String,
    /// Why, for the history of the event and the audit.
    #[schema(min_length = 1, max_length = 1000)]
    reason: String,
}

/// Give up the delivery of an event to one consumer
///
/// It may wait, be worked on or be dead. The reason becomes its last attempt, with the code `discarded`; the key goes on. A
/// redrive delivers it again.
#[utoipa::path(post, path = "/api/v1/events/{eventId}/discard", tag = "events",
    params(("eventId" = String, Path, description = "Its id.")), request_body = DiscardIn,
    responses(
        (status = 202, description = "Discarded.", body = EventSummary),
        (status = 409, description = "`consumed`: its effect has happened. `notWaiting`: none of its deliveries is for this consumer.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn discard(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(wanted): Body<DiscardIn>,
) -> Result<Response, Problem> {
    let DiscardIn { consumer_id: consumer, reason } = wanted;
    is_consumer(&consumer)?;
    input::short("reason", &reason, ERROR_CHARS)?;
    let id = EventId::new(&*id).map_err(|_| unknown())?;
    let discarded = app.store.discard(id.as_str(), &consumer, &reason).await;
    let response = answer(discarded, &[Some(format!("consumer={consumer}")), Some(format!("reason={reason}"))])?;
    // The deliveries behind it may be due now.
    app.waiting.look();
    Ok(response)
}

fn is_consumer(name: &str) -> Result<(), Problem> {
    if input::is_name(name) {
        return Ok(());
    }
    Err(Problem::invalid("consumerId", "must be 1 to 128 of A-Z a-z 0-9 . _ -"))
}

/// A reason within the limits of the audit.
pub(in crate::routes) fn reason(reason: Option<&str>) -> Result<Option<String>, Problem> {
    if let Some(reason) = reason {
        input::short("reason", reason, INITIATOR_BYTES / 4)?;
    }
    Ok(reason.map(|reason| format!("reason={reason}")))
}

fn answer(done: postrider::Result<Record>, details: &[Option<String>]) -> Result<Response, Problem> {
    let found = done.map_err(|error| match error {
        Error::Refused(refusal) => refused(refusal),
        error => error.into(),
    })?;
    let mut response = (StatusCode::ACCEPTED, Json(EventSummary::from(&found))).into_response();
    let details: Vec<_> = details.iter().flatten().map(String::as_str).collect();
    if !details.is_empty() {
        response.extensions_mut().insert(Detail(details.join(" ")));
    }
    Ok(response)
}

fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::UnknownEvent => unknown(),
        refusal => Problem::conflict(refusal.code(), refusal.to_string()),
    }
}
