//! Error responses as `application/problem+json`: the cause, and what the caller can do.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use postrider::store::TransactionError as _;
use postrider::{Error, Failure};
use serde::Serialize;

use crate::error::ShopError;

/// An error response.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// The current status, and those that allow the step.
    #[serde(flatten)]
    states: Option<States>,
}

#[derive(Debug, Serialize)]
struct FieldError {
    field: String,
    message: String,
}

#[derive(Debug, Serialize)]
struct States {
    current: String,
    needed: &'static [&'static str],
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Self { title, status: status.as_u16(), detail: detail.into(), code, errors: Vec::new(), states: None }
    }

    pub(super) fn not_found(what: &str, id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "notFound", format!("there is no {what} {id:?}"))
    }

    /// A field that breaks a rule.
    pub(super) fn field(field: &str, message: String) -> Self {
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", format!("{field} {message}"));
        problem.errors.push(FieldError { field: field.to_owned(), message });
        problem
    }

    /// The caller can only retry; the cause is in the log.
    fn unavailable(error: &Failure) -> Self {
        tracing::warn!(%error, "a request failed: the database is unreachable or busy");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "nothing was changed: try again in a moment")
    }

    fn internal(error: &Failure) -> Self {
        tracing::error!(%error, "a request failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "nothing was changed; the service log contains the error",
        )
    }
}

impl From<ShopError> for Problem {
    fn from(error: ShopError) -> Self {
        let (code, detail, lost) = (error.code(), error.to_string(), error.is_transaction_lost());
        match error {
            ShopError::NotFound { .. } => Self::new(StatusCode::NOT_FOUND, code, detail),
            ShopError::Illegal { status, needed, .. } => {
                let states = Some(States { current: status, needed });
                Self { states, ..Self::new(StatusCode::CONFLICT, code, detail) }
            }
            ShopError::Conflict { .. } | ShopError::NotYet { .. } => Self::new(StatusCode::CONFLICT, code, detail),
            ShopError::Invalid { field, message } => Self::field(field, message),
            ShopError::Store(error) => error.into(),
            ShopError::Database(error) => {
                let unreachable =
                    matches!(error, sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed);
                let error = Failure::from(error);
                if unreachable || lost { Self::unavailable(&error) } else { Self::internal(&error) }
            }
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let retryable = matches!(error, Error::Unavailable(_) | Error::TransactionLost(_));
        let error = Failure::from(error);
        if retryable { Self::unavailable(&error) } else { Self::internal(&error) }
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), "badBody", rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, [(header::CONTENT_TYPE, "application/problem+json")], Json(self)).into_response()
    }
}
