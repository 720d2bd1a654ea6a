//! Every route, in the file named after the first segment of its path.

mod audit;
mod config;
mod consumers;
mod counts;
mod events;
mod export;
mod failures;
mod health;
mod instances;
mod jobs;
mod login;
mod operations;
mod promises;
mod search;
mod session;
mod stats;
mod stories;
mod stream;
mod subscriptions;
mod tokens;
mod topics;
mod traces;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse as _;
use tower::ServiceExt as _;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::problem::Problem;
use crate::{App, answer, auth, console, limits};

/// What has a route of its own and is also streamed.
pub(crate) mod live {
    pub(crate) use super::consumers::{ConsumerView, all as consumers};
    pub(crate) use super::operations::{OperationView, newest as operations};
    pub(crate) use super::stats::{Stats, stats};
}

#[derive(OpenApi)]
#[openapi(components(schemas(Problem)))]
struct Base;

fn all() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Base::openapi())
        .merge(health::routes())
        .merge(audit::routes())
        .merge(config::routes())
        .merge(consumers::routes())
        .merge(counts::routes())
        .merge(events::routes())
        .merge(export::routes())
        .merge(failures::routes())
        .merge(instances::routes())
        .merge(jobs::routes())
        .merge(login::routes())
        .merge(operations::routes())
        .merge(promises::routes())
        .merge(search::routes())
        .merge(session::routes())
        .merge(stats::routes())
        .merge(stories::routes())
        .merge(stream::routes())
        .merge(subscriptions::routes())
        .merge(tokens::routes())
        .merge(topics::routes())
        .merge(traces::routes())
}

/// The OpenAPI document of the handlers.
pub(crate) fn openapi() -> utoipa::openapi::OpenApi {
    all().split_for_parts().1
}

/// Every route, below the base path. Not nested: handlers, guard and table know the routes without it.
pub(crate) fn router(app: &App, more: Router) -> Router {
    let (below, base) = (routes_below(app, more), app.options.base_path.clone());
    if base.as_str().is_empty() {
        return below;
    }
    Router::new().fallback(move |mut request: Request| {
        let (below, base) = (below.clone(), base.clone());
        async move {
            match base.strip(request.uri()) {
                Some(uri) => {
                    *request.uri_mut() = uri;
                    below.oneshot(request).await.into_response()
                }
                None => answer::secured(Problem::not_found(format!("this server is below {}/", base.as_str()))),
            }
        }
    })
}

/// Our routes behind the guard, and routes of other services behind the origin check.
fn routes_below(app: &App, more: Router) -> Router {
    let (router, _) = all().split_for_parts();
    router
        .route_layer(from_fn_with_state(Arc::clone(app), auth::guard))
        .method_not_allowed_fallback(async |path: MatchedPath| auth::not_allowed(path.as_str()))
        .merge(more.layer(from_fn(auth::same_origin_only)).with_state(()))
        .fallback(async |State(app): State<App>, method: Method, uri: Uri, headers: HeaderMap| {
            console::fallback(&app, &method, &uri, &headers)
        })
        .layer(DefaultBodyLimit::max(limits::BODY_BYTES))
        .layer(from_fn(answer::set_headers))
        .with_state(Arc::clone(app))
}
