//! What every answer has: the id of its request, and what a browser must not do with it.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::limits;

/// The header that names a request, in and out.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request: its caller's, or one of ours.
#[derive(Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Nothing is loaded from elsewhere, framed, sniffed or kept.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

pub(crate) async fn dress(mut request: Request, next: Next) -> Response {
    let id = named(request.headers()).unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let value = HeaderValue::from_str(&id);
    request.extensions_mut().insert(RequestId(id));
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(value) = value {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The caller's own id, if it can be kept.
fn named(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    ((1..=limits::LABEL_CHARS).contains(&id.len())).then(|| id.to_owned())
}
