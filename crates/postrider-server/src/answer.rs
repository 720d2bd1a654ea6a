//! What every answer has: the id of its request, and the security headers.
//!
//! Ours instead of tower-http's layers: `SetRequestId` keeps a caller's id of any length, and the audit does not. What is left
//! for a layer is a loop over five fixed headers, and one `timeout` around a body, whose error must become a problem.

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use postrider::envelope::trace::TraceContext;
use postrider::observe::{self, SPANS};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::limits;

/// The header with the id of a request, in requests and answers.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request: the caller's, or a new one.
#[derive(Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Headers that forbid a browser to load from other sites, to be framed, to guess types and to cache.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'self'; frame-ancestors 'none'; form-action 'self'; object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Gives a request its id and span, and its answer the headers.
pub(crate) async fn set_headers(mut request: Request, next: Next) -> Response {
    let id = caller_id(request.headers()).unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let value = HeaderValue::from_str(&id);
    request.extensions_mut().insert(RequestId(id));
    let span = span(&request);
    let mut response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", i64::from(response.status().as_u16()));
    if response.status().is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    response = secured(response);
    if let Ok(value) = value {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// An answer with the security headers, unless it has its own.
pub(crate) fn secured(answer: impl IntoResponse) -> Response {
    let mut answer = answer.into_response();
    for (name, value) in HEADERS {
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}

/// The span of a request, below the caller's span if `traceparent` names one. It holds the route instead of the path, which
/// may contain ids.
fn span(request: &Request) -> Span {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let caused_by = request.headers().get("traceparent").and_then(|value| TraceContext::parse(value.to_str().ok()?));
    let span = tracing::info_span!(
        target: SPANS,
        "request",
        otel.kind = "server",
        http.request.method = request.method().as_str(),
        http.route = route,
        http.response.status_code = Empty,
        otel.status_code = Empty,
    );
    if let Some(TraceContext { trace_id, span_id }) = caused_by {
        observe::set_parent(&span, &trace_id, &span_id);
    }
    span
}

/// The id that the caller sent, if it fits into the audit.
fn caller_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    ((1..=limits::LABEL_CHARS).contains(&id.len())).then(|| id.to_owned())
}
