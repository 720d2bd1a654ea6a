//! Events: publish and report. Lists, one event, redrive and expire have files of their own.

mod list;
pub(super) mod mend;
mod show;

use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use postrider::store::{Appended, NewEvent, Record, Report};
use postrider::{Draft, Enqueued, EventId, Initiator, alert};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::answer::RequestId;
use crate::auth::Caller;
use crate::event::{Around, EventIn};
use crate::input::{self, Body, Path, Time};
use crate::problem::Problem;
use crate::{App, limits};
use show::find;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(publish))
        .merge(list::routes())
        .routes(routes!(publish_batch))
        .merge(show::routes())
        .merge(mend::routes())
        .routes(routes!(report))
}

/// What became of an event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Published {
    event_id: String,
    outcome: Outcome,
    /// Why it is not accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    /// Stored, and on its way.
    Accepted,
    /// It was there already, with the same content.
    Duplicate,
    /// Its topic has no subscription: not stored.
    Skipped,
    /// Its topic has no subscription: stored until there is one (`bus.unheard` is `keep`).
    Unheard,
}

impl Published {
    fn of(enqueued: &Enqueued, topic: &str) -> Self {
        let no_consumer = || Some(format!("no enabled consumer subscribes to topic {topic}"));
        let (outcome, reason) = match enqueued {
            Enqueued::Accepted(_) => (Outcome::Accepted, None),
            Enqueued::Unheard(_) => (Outcome::Unheard, no_consumer()),
            Enqueued::Duplicate(_) => (Outcome::Duplicate, Some("it was published before".into())),
            Enqueued::Skipped(_) => (Outcome::Skipped, no_consumer()),
        };
        Self { event_id: enqueued.event_id().to_string(), outcome, reason }
    }
}

#[derive(Serialize, ToSchema)]
struct PublishedBatch {
    /// One per event, in order.
    results: Vec<Published>,
}

/// Many events.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvents)]
struct BatchIn {
    #[schema(max_items = 1000)]
    events: Vec<EventIn>,
}

/// An event in the sender's format: our envelope, or a CloudEvent.
struct Sent(EventIn);

impl FromRequest<App> for Sent {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let headers = request.headers().clone();
        let media_type = input::media_type(&headers).unwrap_or_default();
        let is_binary = headers.contains_key("ce-specversion");
        if !is_binary && !matches!(media_type.as_str(), "application/json" | "application/cloudevents+json") {
            return Err(input::unsupported("application/json or application/cloudevents+json"));
        }
        let body = input::bytes(request, app).await?;
        match media_type.as_str() {
            _ if is_binary => EventIn::from_binary(&headers, &body),
            "application/cloudevents+json" => EventIn::from_structured(input::text(&body)?),
            _ => input::read(input::text(&body)?),
        }
        .map(Self)
    }
}

/// Values of the request for fields that its events leave out.
fn around<'a>(caller: &Caller, operation: &str, headers: &'a HeaderMap, id: RequestId) -> Around<'a> {
    Around {
        initiator: Initiator {
            service: Some(caller.name.clone()),
            operation: Some(operation.into()),
            user_id: None,
            client_request_id: Some(id.0),
            token_id: Some(caller.token_id.clone()),
        },
        traceparent: headers.get("traceparent").and_then(|value| value.to_str().ok()),
    }
}

fn prepare(app: &App, draft: Draft) -> Result<NewEvent, Problem> {
    let new = app.bus.prepare(draft)?;
    let (bytes, most) = (new.envelope.payload.len(), app.options.payload_bytes);
    if bytes > most {
        let message = format!("may have {most} bytes at most, has {bytes}");
        return Err(postrider::Error::TooLarge { field: "payload", message }.into());
    }
    Ok(new)
}

/// Publish an event
///
/// As our own envelope or as a CloudEvent 1.0, structured or binary. Missing fields are filled in: the id, the trace (from
/// `traceparent`), the initiator (the token's name, this route, `X-Request-Id`), the time.
#[utoipa::path(post, path = "/api/v1/events", tag = "events",
    request_body(content((EventIn = "application/json"), (Object = "application/cloudevents+json"))),
    responses(
        (status = 202, description = "Accepted: stored, and on its way.", body = Published),
        (status = 200, description = "A duplicate, or skipped because its topic has no subscription.", body = Published),
        (status = 422, description = "A field breaks a rule, or `notSubscribed`: the topic has no subscription, and `bus.unheard` is `refuse`.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`idConflict`: the id is taken by an event with other content.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn publish(
    State(app): State<App>,
    caller: Caller,
    axum::Extension(id): axum::Extension<RequestId>,
    headers: HeaderMap,
    Sent(event): Sent,
) -> Result<Response, Problem> {
    let around = around(&caller, "POST /api/v1/events", &headers, id);
    let mut drafts = [event.within(&caller.scope)?.into_draft(&around)?];
    app.bus.inherit_traces(&mut drafts, &caller.scope).await?;
    let [draft] = drafts;
    let new = prepare(&app, draft)?;
    let mut results = written(&app, &[new]).await?;
    let published = results.pop().ok_or_else(|| Problem::not_found("the store answered for no event"))?;
    let status = match published.outcome {
        Outcome::Accepted | Outcome::Unheard => StatusCode::ACCEPTED,
        Outcome::Duplicate | Outcome::Skipped => StatusCode::OK,
    };
    Ok((status, Json(published)).into_response())
}

/// Publish many events in one transaction
///
/// One bad event refuses them all, and is named.
#[utoipa::path(post, path = "/api/v1/events/batch", tag = "events", request_body = BatchIn, responses(
    (status = 200, description = "One result per event, in order.", body = PublishedBatch),
    (status = 409, description = "`idConflict`: an id is taken by an event with other content; nothing is stored.", body = Problem, content_type = "application/problem+json"),
))]
async fn publish_batch(
    State(app): State<App>,
    caller: Caller,
    axum::Extension(id): axum::Extension<RequestId>,
    headers: HeaderMap,
    Body(batch): Body<BatchIn>,
) -> Result<Json<PublishedBatch>, Problem> {
    if batch.events.len() > limits::BATCH_EVENTS {
        let message = format!("may be {} at most in one batch, are {}", limits::BATCH_EVENTS, batch.events.len());
        return Err(postrider::Error::TooLarge { field: "events", message }.into());
    }
    let around = around(&caller, "POST /api/v1/events/batch", &headers, id);
    let within = |n: usize| move |problem: Problem| problem.within(&format!("events[{n}]"));
    let events = batch.events.into_iter().enumerate();
    let drafts = events
        .map(|(n, event)| event.within(&caller.scope).and_then(|event| event.into_draft(&around)).map_err(within(n)));
    let mut drafts = drafts.collect::<Result<Vec<_>, _>>()?;
    app.bus.inherit_traces(&mut drafts, &caller.scope).await?;
    let prepared = drafts.into_iter().enumerate().map(|(n, draft)| prepare(&app, draft).map_err(within(n)));
    let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
    Ok(Json(PublishedBatch { results: written(&app, &prepared).await? }))
}

async fn written(app: &App, batch: &[NewEvent]) -> Result<Vec<Published>, Problem> {
    let enqueued = app.bus.publish(batch).await?;
    app.waiting.look();
    Ok(enqueued.iter().zip(batch).map(|(one, new)| Published::of(one, &new.envelope.topic)).collect())
}

/// What a remote consumer reports.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewConsumption)]
struct ReportIn {
    /// Who reports.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    consumer_id: String,
    /// Whether its effect happened.
    success: bool,
    /// Whether, having failed, it will try again.
    #[serde(default)]
    will_retry: bool,
    /// What went wrong; cut at 1,000 characters.
    #[serde(default, deserialize_with = "postrider::limits::lossy_text")]
    error_message: Option<String>,
    /// A code for it.
    #[serde(default, deserialize_with = "postrider::limits::lossy_text")]
    error_code: Option<String>,
    /// When, by its own clock.
    consumed_at: Option<Time>,
    /// Makes a repeated report the same attempt.
    callback_id: Option<input::Id>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Reported {
    /// The number of the attempt.
    attempt_no: u32,
}

/// Report an attempt of a consumer that gets its events by a broker, or by its own means
#[utoipa::path(post, path = "/api/v1/events/{eventId}/consumptions", tag = "events",
    params(("eventId" = String, Path, description = "Its id.")), request_body = ReportIn,
    responses(
        (status = 201, description = "Written down as a new attempt.", body = Reported),
        (status = 200, description = "The same `callbackId` was reported before.", body = Reported),
        (status = 409, description = "`useSettle`: this consumer pulls, or is called: its deliveries are settled.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field breaks a rule, or `notSubscribed`: no report of this consumer is expected.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn report(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Body(report): Body<ReportIn>,
) -> Result<Response, Problem> {
    if !input::is_name(&report.consumer_id) {
        return Err(Problem::invalid("consumerId", "must be 1 to 128 of A-Z a-z 0-9 . _ -"));
    }
    if let Some(callback_id) = &report.callback_id {
        input::label("callbackId", &callback_id.0)?;
    }
    let event_id = EventId::new(&*id).map_err(|_| Problem::not_found("there is no such event"))?;
    if !caller.scope.is_everything() {
        find(&app, &caller.scope, &id).await?;
        if !caller.scope.has_consumer(&report.consumer_id) {
            return Err(Problem::not_found("the consumer is outside the token's scope"));
        }
    }
    let report = Report {
        event_id: event_id.to_string(),
        consumer: report.consumer_id,
        success: report.success,
        will_retry: report.will_retry && !report.success,
        error: report.error_message,
        code: report.error_code,
        callback_id: report.callback_id.map(|id| id.0),
        consumed_at: report.consumed_at.map(|at| at.0),
    };
    let appended = app.store.append_consumption(&report).await?;
    alert::note_report(&*app.store, &report, &appended).await;
    match appended {
        Appended::Attempt(attempt_no) => Ok((StatusCode::CREATED, Json(Reported { attempt_no })).into_response()),
        Appended::Repeated(attempt_no) => Ok((StatusCode::OK, Json(Reported { attempt_no })).into_response()),
        Appended::NotExpected => Err(not_expected(&find(&app, &caller.scope, &id).await?, &report.consumer)),
    }
}

/// Why a report is refused: the consumer settles deliveries instead, or the event does not expect it.
fn not_expected(found: &Record, consumer: &str) -> Problem {
    let has_lane = found.deliveries.iter().any(|delivery| delivery.lane == consumer)
        || found.consumptions.iter().any(|attempt| attempt.consumer == consumer);
    if has_lane {
        Problem::conflict(
            "useSettle",
            format!("{consumer} gets its events from here: claim them and settle them under /consumers/{consumer}"),
        )
    } else {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "notSubscribed",
            format!("{consumer} was not subscribed to {} when this event was written", found.envelope.topic),
        )
    }
}
