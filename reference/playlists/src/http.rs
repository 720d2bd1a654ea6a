//! Shared by the routes of all services: state, names in paths, and error responses.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use postrider::store::{TransactionError, is_transaction_lost};
use postrider::{Error, Failure, Outbox};
use serde::Serialize;

/// The limit of a user, song or playlist name: short enough for an index in every database.
pub(crate) const NAME_CHARS: usize = 100;

/// The state of the handlers.
#[derive(Clone)]
pub(crate) struct App<S> {
    pub(crate) store: S,
    pub(crate) outbox: Outbox<S>,
}

/// The name in a path, validated.
pub(crate) struct Name(pub(crate) String);

impl<T: Send + Sync> FromRequestParts<T> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &T) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|e| Problem::new(e.status(), "badPath", e.body_text()))?;
        let (field, name) = params.iter().next().unwrap_or_default();
        check_name(field, name)?;
        Ok(Self(name.to_owned()))
    }
}

/// Validates a name. Spaces at its ends are refused, because such names look the same.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), Problem> {
    let chars = name.chars().count();
    let message = match () {
        () if chars == 0 || chars > NAME_CHARS => format!("must have 1 to {NAME_CHARS} characters, has {chars}"),
        () if name.chars().any(char::is_control) => "may not hold control characters".to_owned(),
        () if name.trim() != name => "may not begin or end with a space".to_owned(),
        () => return Ok(()),
    };
    Err(Problem::field(field, message))
}

/// An error response as `application/problem+json`: the cause, and what the caller can do.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// The database has rolled the transaction back and asks to run it again.
    #[serde(skip)]
    lost: bool,
}

#[derive(Debug, Serialize)]
struct FieldError {
    field: String,
    message: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Self { title, status: status.as_u16(), detail: detail.into(), code, errors: Vec::new(), lost: false }
    }

    pub(crate) fn not_found(what: &str, name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "notFound", format!("there is no {what} {name:?}"))
    }

    /// A field that breaks a rule.
    pub(crate) fn field(field: &str, message: String) -> Self {
        let detail = format!("{field} {message}");
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail);
        problem.errors.push(FieldError { field: field.to_owned(), message });
        problem
    }

    /// Maps a unique violation to a conflict.
    pub(crate) fn taken(error: sqlx::Error, what: &str, name: &str) -> Self {
        if error.as_database_error().is_some_and(|e| e.is_unique_violation()) {
            Self::new(StatusCode::CONFLICT, "exists", format!("{what} {name:?} already exists"))
        } else {
            error.into()
        }
    }

    /// The caller can only retry; the cause is in the log.
    fn unavailable(error: &Failure) -> Self {
        tracing::warn!(%error, "a transaction failed: the database is unreachable, or has rolled it back");
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

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        let unreachable = matches!(error, sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed);
        let lost = is_transaction_lost(&error);
        let error = Failure::from(error);
        let problem = if unreachable || lost { Self::unavailable(&error) } else { Self::internal(&error) };
        Self { lost, ..problem }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let lost = error.is_transaction_lost();
        let unreachable = matches!(error, Error::Unavailable(_));
        let error = Failure::from(error);
        let problem = if unreachable || lost { Self::unavailable(&error) } else { Self::internal(&error) };
        Self { lost, ..problem }
    }
}

impl TransactionError for Problem {
    fn is_transaction_lost(&self) -> bool {
        self.lost
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
