//! Reads bodies, queries and paths within their limits. What breaks one is answered with a problem.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::filter::FilterIn;
use crate::problem::Problem;
use crate::{App, limits};

/// A body of JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        if media_type(request.headers()).as_deref() != Some("application/json") {
            return Err(unsupported("application/json"));
        }
        let bytes = bytes(request, app).await?;
        read(text(&bytes)?).map(Self)
    }
}

/// The bytes of a body.
pub(crate) async fn bytes(request: Request, app: &App) -> Result<Bytes, Problem> {
    let reading = tokio::time::timeout(app.options.connections.body, Bytes::from_request(request, app));
    match reading.await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let detail = format!(
                "a body may have {} bytes at most, and {} where no token is needed: send less at once",
                limits::BODY_BYTES,
                limits::OPEN_BODY_BYTES
            );
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "tooLarge", detail))
        }
        Ok(Err(_)) => Err(Problem::new(StatusCode::BAD_REQUEST, "badBody", "the body is shorter than announced")),
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body took too long to arrive")),
    }
}

pub(crate) fn text(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "badJson", "the body is not UTF-8"))
}

/// Reads JSON. The problem names the field with a wrong type.
pub(crate) fn read<T: DeserializeOwned>(json: &str) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let bad = |error: &serde_json::Error| {
        Problem::new(StatusCode::BAD_REQUEST, "badJson", format!("the body is no JSON: {error}"))
    };
    let read = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        if error.is_data() {
            Problem::invalid(if path == "." { "body".into() } else { path }, format!("is wrong: {error}"))
        } else {
            bad(&error)
        }
    })?;
    deserializer.end().map_err(|error| bad(&error))?;
    Ok(read)
}

/// The media type of a body, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

pub(crate) fn unsupported(wanted: &str) -> Problem {
    let detail = format!("the body must have the content type {wanted}");
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupportedMediaType", detail)
}

/// The query.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match axum::extract::Query::from_request_parts(parts, app).await {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(Problem::bad_query("query", format!("is wrong: {}", rejection.body_text()))),
        }
    }
}

/// A flag: in a body a boolean, in a query its text.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    use serde::de::Error as _;
    match Value::deserialize(deserializer)? {
        Value::Bool(flag) => Ok(flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        _ => Err(D::Error::custom("must be true or false")),
    }
}

/// A query that names events.
pub(crate) struct Matching(pub(crate) FilterIn);

impl FromRequestParts<App> for Matching {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, app).await?;
        filter(pairs).map(Self)
    }
}

/// A query that names events and a page of them.
pub(crate) struct Wanted {
    pub(crate) filter: FilterIn,
    pub(crate) limit: u32,
    pub(crate) cursor: Option<String>,
}

impl FromRequestParts<App> for Wanted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, app).await?;
        let (mut limit, mut cursor) = (None, None);
        let mut rest = Vec::new();
        for (name, value) in pairs {
            match name.as_str() {
                "limit" if limit.is_none() => limit = Some(page_limit(&value)?),
                "cursor" if cursor.is_none() => cursor = Some(value),
                "limit" | "cursor" => return Err(Problem::bad_query(&name, "may be given once")),
                _ => rest.push((name, value)),
            }
        }
        Ok(Self { filter: filter(rest)?, limit: limit.unwrap_or(limits::PAGE_DEFAULT), cursor })
    }
}

pub(crate) fn filter(pairs: Vec<(String, String)>) -> Result<FilterIn, Problem> {
    let mut filter = Map::new();
    for (name, value) in pairs {
        if filter.contains_key(&name) {
            return Err(Problem::bad_query(&name, "may be given once"));
        }
        filter.insert(name, value.into());
    }
    serde_path_to_error::deserialize(Value::from(filter)).map_err(|error| {
        let path = error.path().to_string();
        Problem::bad_query(if path == "." { "query" } else { &path }, format!("is wrong: {}", error.into_inner()))
    })
}

pub(crate) fn page_limit(text: &str) -> Result<u32, Problem> {
    let limit = text.parse().ok().filter(|limit| (1..=limits::PAGE_ROWS).contains(limit));
    limit.ok_or_else(|| Problem::bad_query("limit", format!("must be 1 to {}, is {text:?}", limits::PAGE_ROWS)))
}

/// The parameters of the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match axum::extract::Path::from_request_parts(parts, app).await {
            Ok(axum::extract::Path(path)) => Ok(Self(path)),
            Err(_) => Err(Problem::not_found("the path has an invalid part")),
        }
    }
}

/// Whether this can be the name of a topic or a consumer. Other names are answered without a query.
pub(crate) fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=limits::NAME_CHARS).contains(&text.len()) && text.chars().all(allowed)
}

/// A short text that every store can hold.
pub(crate) fn label(field: &str, text: &str) -> Result<(), Problem> {
    short(field, text, limits::LABEL_CHARS)
}

/// A text of at most `most` characters that every store can hold.
pub(crate) fn short(field: &str, text: &str, most: usize) -> Result<(), Problem> {
    let chars = text.chars().count();
    if !(1..=most).contains(&chars) {
        return Err(Problem::invalid(field, format!("must have 1 to {most} characters, has {chars}")));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(Problem::invalid(field, format!("may not hold the control character {c:?}"))),
        None => Ok(()),
    }
}

/// An id in a request: a string, or an integer that is read as one, digit by digit.
#[derive(Debug, Clone)]
pub(crate) struct Id(pub(crate) String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let is_integer = |text: &str| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        match raw.get() {
            number if is_integer(number) => Ok(Self(number.into())),
            other => {
                serde_json::from_str(other).map(Self).map_err(|_| D::Error::custom("must be a string or an integer"))
            }
        }
    }
}

impl utoipa::PartialSchema for Id {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
        let types = SchemaType::from_iter([Type::String, Type::Integer]);
        ObjectBuilder::new().schema_type(types).description(Some("A string, or an integer that is read as one.")).into()
    }
}

impl utoipa::ToSchema for Id {}

/// A time in a request: RFC 3339, of a year that every store keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time(pub(crate) OffsetDateTime);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let text = String::deserialize(deserializer)?;
        let time = OffsetDateTime::parse(&text, &Rfc3339).map_err(|_| D::Error::custom("must be an RFC 3339 time"))?;
        // A year from either end, so that no time zone leads out of what the stores can hold.
        if (1970..=9998).contains(&time.year()) {
            Ok(Self(time))
        } else {
            Err(D::Error::custom("must be of the years 1970 to 9998"))
        }
    }
}

impl utoipa::PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

impl utoipa::ToSchema for Time {}

/// Any JSON, kept as the text it came as.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Raw(pub(crate) Box<RawValue>);

impl utoipa::PartialSchema for Raw {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some("Any JSON.")).into()
    }
}

impl utoipa::ToSchema for Raw {}
