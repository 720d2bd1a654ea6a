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

/// What is shown on its own route and told as it changes.
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

/// What the handlers say of themselves.
pub(crate) fn openapi() -> utoipa::openapi::OpenApi {
    all().split_for_parts().1
}

/// The routes behind their guard, and those of others behind as much of it as they share.
pub(crate) fn router(app: &App, more: Router) -> Router {
    let (router, _) = all().split_for_parts();
    router
        .route_layer(from_fn_with_state(Arc::clone(app), auth::guard))
        .method_not_allowed_fallback(async |path: MatchedPath| auth::not_allowed(path.as_str()))
        .merge(more.layer(from_fn(auth::own_pages)).with_state(()))
        .fallback(async |uri: Uri| {
            Problem::not_found(format!("{} is not here: /openapi.json lists what is", uri.path()))
        })
        .layer(DefaultBodyLimit::max(limits::BODY_BYTES))
        .layer(from_fn(answer::dress))
        .with_state(Arc::clone(app))
}
