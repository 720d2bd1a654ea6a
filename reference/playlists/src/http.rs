//! What the routes of all services have in common: their state, names in paths, and answers to what goes wrong.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use postrider::{Error, Failure, Outbox};
use serde::Serialize;

/// Characters of a username, a song or a playlist: short enough for the index of every database.
pub(crate) const NAME_CHARS: usize = 100;

/// What a handler works with.
#[derive(Clone)]
pub(crate) struct App<S> {
    pub(crate) store: S,
    pub(crate) outbox: Outbox<S>,
}

/// The one name in a path, checked.
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

/// Refuses what cannot be a name. Spaces around it too: no reader could tell two such names apart.
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

/// An answer that says what was wrong and what to do, as `application/problem+json`.
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

    /// What an insert that found its row taken is to the caller; any other error stays what it is.
    pub(crate) fn taken(error: sqlx::Error, what: &str, name: &str) -> Self {
        match error.as_database_error().is_some_and(|e| e.is_unique_violation()) {
            true => Self::new(StatusCode::CONFLICT, "exists", format!("{what} {name:?} is there already")),
            false => error.into(),
        }
    }

    /// The caller can only wait; a person reads why in the log.
    fn unavailable(error: &Failure) -> Self {
        tracing::warn!(%error, "a request was not served: the database is away");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "nothing was changed: try again in a moment")
    }

    fn internal(error: &Failure) -> Self {
        tracing::error!(%error, "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "nothing was changed; the service's log says why")
    }
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        let away = matches!(error, sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed);
        match (away, Failure::from(error)) {
            (true, error) => Self::unavailable(&error),
            (false, error) => Self::internal(&error),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let again = matches!(error, Error::Unavailable(_) | Error::TransactionLost(_));
        match (again, Failure::from(error)) {
            (true, error) => Self::unavailable(&error),
            (false, error) => Self::internal(&error),
        }
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
