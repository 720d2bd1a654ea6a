//! The effective configuration.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::settings::Setting;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Serialize, ToSchema)]
struct Config {
    settings: Vec<Setting>,
}

/// The effective configuration and where each value comes from; secrets are hidden
#[utoipa::path(get, path = "/api/v1/config", tag = "operations", responses((status = 200, description = "The settings.", body = Config)))]
async fn list(State(app): State<App>) -> Json<Config> {
    Json(Config { settings: app.options.settings.clone() })
}
