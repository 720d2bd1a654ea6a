//! Error answers, as `application/problem+json`: what went wrong and what to do.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postrider::Error;
use serde::Serialize;
use utoipa::ToSchema;

use crate::probe;

/// The media type of every problem.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// What went wrong, and what to do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// The kind of problem, in a few words.
    title: String,
    /// The status of the answer.
    status: u16,
    /// What happened, and what to do.
    detail: String,
    /// The kind of problem, for programs.
    code: String,
    /// The fields that are to blame.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    errors: Vec<FieldError>,
    /// How many deliveries wait, where these forbid it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = Option<u64>)]
    waiting: Option<Box<u64>>,
    /// Boxed, because every result carries a problem's size.
    #[serde(skip)]
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

/// A field, and what is wrong with it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FieldError {
    /// The field, as a path into the request.
    field: String,
    /// The rule and how it was broken.
    message: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self {
            title: status.canonical_reason().unwrap_or("Error").into(),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.into(),
            errors: Vec::new(),
            waiting: None,
            header: None,
        }
    }

    /// One field breaks a rule.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        let detail = format!("{field} {message}");
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail);
        problem.errors.push(FieldError { field, message });
        problem
    }

    /// A parameter of the query breaks a rule.
    pub(crate) fn bad_query(field: &str, message: impl Into<String>) -> Self {
        Self::invalid(field, message).in_query()
    }

    /// Turns the status from 422 into 400: the field is in the query, not in a body.
    pub(crate) fn in_query(self) -> Self {
        match self.status {
            422 => Self { status: 400, title: "Bad Request".into(), code: "badQuery".into(), ..self },
            _ => self,
        }
    }

    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "notFound", what)
    }

    pub(crate) fn conflict(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    pub(crate) fn waiting(self, waiting: u64) -> Self {
        Self { waiting: Some(Box::new(waiting)), ..self }
    }

    /// Prefixes the fields with their place in a list.
    pub(crate) fn within(mut self, place: &str) -> Self {
        for error in &mut self.errors {
            error.field = format!("{place}.{}", error.field);
        }
        self.detail = format!("{place}: {}", self.detail);
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some(Box::new((name, value)));
        self
    }

    /// An error that the caller cannot mend. The log has its cause.
    fn internal(error: &Error) -> Self {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(%error, cause, "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the server's log says why")
    }

    fn unavailable(error: &Error) -> Self {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(%error, cause, "a request was not served: the store is away");
        let (code, detail) = match error.obstacle() {
            Some(obstacle) => (probe::code(obstacle), obstacle.to_string()),
            None => ("unavailable", "the store is away: try again in a moment".into()),
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
            .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::Invalid { field, message } => Self::invalid(field, message),
            Error::TooLarge { field, message } => Self {
                status: 413,
                title: "Content Too Large".into(),
                code: "tooLarge".into(),
                ..Self::invalid(field, message)
            },
            Error::IdConflict { event_id } => Self::conflict(
                "idConflict",
                format!("event id {event_id} is taken by an event with other content: use another id"),
            ),
            Error::Unheard { .. } => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "notSubscribed", detail),
            Error::Encode(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail),
            Error::Unavailable(_) | Error::TransactionLost(_) => Self::unavailable(&error),
            Error::SchemaOutOfDate { .. } | Error::SchemaTooNew { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "schema", detail)
            }
            error => Self::internal(&error),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut headers = HeaderMap::new();
        headers.extend(self.header.take().map(|header| (header.0, header.1)));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        let body = serde_json::to_vec(&self).unwrap_or_default();
        (status, headers, body).into_response()
    }
}
