//! Every route, in the file named after the first segment of its path.

mod audit;
mod config;
mod consumers;
mod events;
mod failures;
mod health;
mod instances;
mod jobs;
mod login;
mod operations;
mod stats;
mod stream;
mod subscriptions;
mod tokens;
mod traces;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath};
use axum::http::Uri;
use axum::middleware::{from_fn, from_fn_with_state};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::problem::Problem;
use crate::{App, answer, auth, limits};

/// What has a route of its own and is also streamed.
pub(crate) mod live {
    pub(crate) use super::consumers::all as consumers;
    pub(crate) use super::operations::newest as operations;
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
        .merge(events::routes())
        .merge(failures::routes())
        .merge(instances::routes())
        .merge(jobs::routes())
        .merge(login::routes())
        .merge(operations::routes())
        .merge(stats::routes())
        .merge(stream::routes())
        .merge(subscriptions::routes())
        .merge(tokens::routes())
        .merge(traces::routes())
}

/// The OpenAPI document of the handlers.
pub(crate) fn openapi() -> utoipa::openapi::OpenApi {
    all().split_for_parts().1
}

/// Our routes behind the guard, and routes of other services behind the origin check.
pub(crate) fn router(app: &App, more: Router) -> Router {
    let (router, _) = all().split_for_parts();
    router
        .route_layer(from_fn_with_state(Arc::clone(app), auth::guard))
        .method_not_allowed_fallback(async |path: MatchedPath| auth::not_allowed(path.as_str()))
        .merge(more.layer(from_fn(auth::same_origin_only)).with_state(()))
        .fallback(async |uri: Uri| {
            Problem::not_found(format!("{} does not exist: /openapi.json lists all routes", uri.path()))
        })
        .layer(DefaultBodyLimit::max(limits::BODY_BYTES))
        .layer(from_fn(answer::set_headers))
        .with_state(Arc::clone(app))
}
