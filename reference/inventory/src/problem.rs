//! Error responses as `application/problem+json`: the cause, and what the caller can do.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use postrider::Failure;
use postrider::store::TransactionError as _;
use serde::Serialize;

use crate::error::Error;

/// A key in progress is usually done after this many seconds.
const RETRY_AFTER: &str = "1";

/// Written out here, as in the other reference systems: each is a program that can be read and copied alone.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
}

#[derive(Debug, Serialize)]
struct FieldError {
    field: String,
    message: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Self { title, status: status.as_u16(), detail: detail.into(), code, errors: Vec::new() }
    }

    /// Adds an invalid field.
    fn with(mut self, field: String, message: String) -> Self {
        self.errors.push(FieldError { field, message });
        self
    }

    /// The caller can only retry; the cause is in the log.
    fn unavailable(error: &Failure) -> Self {
        tracing::warn!(%error, "a request failed: a database is unreachable");
        let detail = "a database is unreachable: try again later, with the same key";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    }

    fn internal(error: &Failure) -> Self {
        tracing::error!(%error, "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the service log contains the error")
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let (unprocessable, conflict) = (StatusCode::UNPROCESSABLE_ENTITY, StatusCode::CONFLICT);
        match error {
            Error::Invalid { field, message } => Self::new(unprocessable, "invalid", detail).with(field, message),
            Error::UnknownProduct { field, .. } => {
                Self::new(unprocessable, "unknownProduct", detail).with(field, "is not in stock here".into())
            }
            Error::Mismatch => Self::new(unprocessable, "keyMismatch", detail),
            Error::InProgress => Self::new(conflict, "inProgress", detail),
            Error::OutOfStock { .. } => Self::new(conflict, "outOfStock", detail),
            Error::Released => Self::new(conflict, "released", detail),
            error if error.is_transaction_lost() => Self::unavailable(&Failure::from(error)),
            Error::Store(error @ postrider::Error::Unavailable(_)) => Self::unavailable(&Failure::from(error)),
            Error::Sql(error @ (sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed)) => {
                Self::unavailable(&Failure::from(error))
            }
            Error::Store(error) => Self::internal(&Failure::from(error)),
            Error::Sql(error) => Self::internal(&Failure::from(error)),
            error @ Error::Corrupt(_) => Self::internal(&Failure::from(error)),
        }
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), "badBody", rejection.body_text())
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::new(rejection.status(), "badPath", rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let again = (self.code == "inProgress").then_some([(header::RETRY_AFTER, RETRY_AFTER)]);
        (status, again, [(header::CONTENT_TYPE, "application/problem+json")], Json(self)).into_response()
    }
}
