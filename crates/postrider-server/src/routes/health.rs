//! Routes outside of the API: readiness, metrics, the OpenAPI document and the page. And the health of the whole installation,
//! for operators.

mod report;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postrider::Error;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;
use crate::{App, console, probe};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(page))
        .routes(routes!(livez))
        .routes(routes!(readyz))
        .routes(routes!(metrics))
        .routes(routes!(openapi))
        .merge(report::routes())
}

/// The web console, or a page that says what can be called
#[utoipa::path(get, path = "/", tag = "server", responses((status = 200, description = "A page.", content_type = "text/html", body = String)))]
async fn page(State(app): State<App>, headers: HeaderMap) -> Response {
    console::page(&app, &headers)
}

/// Whether the process lives
#[utoipa::path(get, path = "/livez", tag = "server", responses((status = 200, description = "It does.", content_type = "text/plain", body = String)))]
async fn livez() -> &'static str {
    "ok\n"
}

/// Whether requests can be served: the store answers, can be written, and has this program's schema
#[utoipa::path(get, path = "/readyz", tag = "server", responses(
    (status = 200, description = "They can.", content_type = "text/plain", body = String),
    (status = 503, description = "They cannot: `storeAway`, `storeFull`, `storeReadOnly`, `storeReplaced`, `schemaOld`, `schemaNew`, `schemaOther` or `stopping`.", body = Problem, content_type = "application/problem+json"),
))]
async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    if app.stop.is_cancelled() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server is stopping"));
    }
    if let Some(obstacle) = app.probed.obstacle() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, probe::code(obstacle), obstacle.to_string()));
    }
    match app.store.check_schema().await {
        Ok(()) => Ok("ok\n"),
        Err(error) => {
            let (code, detail) = unready(&error);
            tracing::warn!(%error, code, "not ready");
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail))
        }
    }
}

/// Why no request can be served. Without details of the store: the route needs no token.
fn unready(error: &Error) -> (&'static str, &'static str) {
    match error {
        Error::SchemaOutOfDate { .. } => {
            ("schemaOld", "the tables are older than this program: run `postrider migrate up`")
        }
        Error::SchemaTooNew { .. } => ("schemaNew", "the tables are newer than this program: update it"),
        Error::Unsupported(_) => ("schemaOther", "the tables are of another build: the server's log says more"),
        _ => ("storeAway", "the store does not answer: the server's log says more"),
    }
}

/// The metrics, for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "server", responses(
    (status = 200, description = "The metrics.", content_type = "text/plain", body = String),
    (status = 404, description = "This server keeps none.", body = Problem, content_type = "application/problem+json"),
))]
async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let metrics = app.options.metrics.as_ref().ok_or_else(|| Problem::not_found("this server keeps no metrics"))?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics.render()).into_response())
}

/// This description
#[utoipa::path(get, path = "/openapi.json", tag = "server", responses((status = 200, description = "OpenAPI 3.1.", content_type = "application/json", body = Object)))]
async fn openapi(State(app): State<App>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], app.document.clone()).into_response()
}
