//! Redrive, expire and discard: what operators do to events.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postrider::limits::{ERROR_CHARS, INITIATOR_BYTES};
use postrider::redrive::Refusal;
use postrider::store::Record;
use postrider::store::access::explain;
use postrider::{Error, EventId};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::show::{find, unknown};
use crate::App;
use crate::auth::Caller;
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
    caller: Caller,
    Path(id): Path<String>,
    Body(wanted): Body<RedriveIn>,
) -> Result<Response, Problem> {
    let consumer = wanted.consumer_id.as_deref();
    consumer.map_or(Ok(()), is_consumer)?;
    let why = reason(wanted.reason.as_deref())?;
    let id = EventId::new(&*id).map_err(|_| unknown())?;
    let consumer = part(&app, &caller, &id, consumer).await?;
    explain(why, consumer.map(|consumer| format!("consumer={consumer}")).as_deref());
    let redriven = app.store.redrive_event(id.as_str(), consumer, &app.options.redrive).await;
    let response = answer(&caller, redriven)?;
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
    caller: Caller,
    Path(id): Path<String>,
    Body(wanted): Body<ExpireIn>,
) -> Result<Response, Problem> {
    let why = reason(wanted.reason.as_deref())?;
    let id = EventId::new(&*id).map_err(|_| unknown())?;
    if !caller.scope.is_everything() {
        find(&app, &caller.scope, id.as_str()).await?;
    }
    if !caller.scope.consumers.is_empty() {
        return Err(needs_consumer(
            "an event expires for all of its consumers: discard one consumer's delivery instead",
        ));
    }
    explain(why, None);
    answer(&caller, app.store.expire(id.as_str()).await)
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
    caller: Caller,
    Path(id): Path<String>,
    Body(wanted): Body<DiscardIn>,
) -> Result<Response, Problem> {
    let DiscardIn { consumer_id: consumer, reason } = wanted;
    is_consumer(&consumer)?;
    input::short("reason", &reason, ERROR_CHARS)?;
    let id = EventId::new(&*id).map_err(|_| unknown())?;
    part(&app, &caller, &id, Some(&consumer)).await?;
    explain(Some(&reason), Some(&format!("consumer={consumer}")));
    let discarded = app.store.discard(id.as_str(), &consumer, &reason).await;
    let response = answer(&caller, discarded)?;
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
pub(in crate::routes) fn reason(reason: Option<&str>) -> Result<Option<&str>, Problem> {
    if let Some(reason) = reason {
        input::short("reason", reason, INITIATOR_BYTES / 4)?;
    }
    Ok(reason)
}

/// Whose part of an event a caller may change. A token for some consumers names one of them.
async fn part<'a>(
    app: &App,
    caller: &'a Caller,
    id: &EventId,
    consumer: Option<&'a str>,
) -> Result<Option<&'a str>, Problem> {
    if caller.scope.is_everything() {
        return Ok(consumer);
    }
    find(app, &caller.scope, id.as_str()).await?;
    match consumer.or(caller.scope.only_consumer()) {
        Some(consumer) if caller.scope.has_consumer(consumer) => Ok(Some(consumer)),
        None if caller.scope.consumers.is_empty() => Ok(None),
        Some(_) => Err(unknown()),
        None => Err(needs_consumer("is needed: the token is for some consumers only")),
    }
}

pub(in crate::routes) fn needs_consumer(why: &str) -> Problem {
    Problem::invalid("consumerId", why)
}

fn answer(caller: &Caller, done: postrider::Result<Record>) -> Result<Response, Problem> {
    let mut found = done.map_err(|error| match error {
        Error::Refused(refusal) => refused(refusal),
        error => error.into(),
    })?;
    caller.scope.cut(&mut found);
    Ok((StatusCode::ACCEPTED, Json(EventSummary::from(&found))).into_response())
}

fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::UnknownEvent => unknown(),
        refusal => Problem::conflict(refusal.code(), refusal.to_string()),
    }
}
