//! Who is logged in, and what the pages of a console must know of the server.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use postrider::store::DeadHead;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::tokens::{RoleView, ScopeView};
use crate::App;
use crate::auth::Caller;
use crate::view::At;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

/// The caller, and the server.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
struct SessionView {
    /// The name of the caller's token.
    name: String,
    role: RoleView,
    /// What the token reaches; nothing else exists for it.
    scope: ScopeView,
    /// When the token stops working by itself.
    expires_at: Option<At>,
    environment: Environment,
    version: String,
    /// The kind of the store.
    store: String,
    /// The kind of the broker.
    broker: Option<String>,
    /// Addresses of the business's own pages by aggregate type, with `{id}`; `trace` is that of the tracing system, with
    /// `{traceId}`.
    links: BTreeMap<String, String>,
    limits: Limits,
}

/// What this installation is.
#[derive(Serialize, ToSchema)]
struct Environment {
    name: String,
}

/// The rules in force, for every role.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SessionLimits)]
struct Limits {
    max_attempts: u32,
    backoff_cap_seconds: u64,
    backoff_jitter: f64,
    lease_seconds: u64,
    redrive_max_count: u32,
    redrive_horizon_days: u64,
    inbox_days: u64,
    finished_days: u64,
    dead_head: DeadHeadView,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeadHead)]
enum DeadHeadView {
    Hold,
    Skip,
}

/// Who the caller is, and the rules of the server
#[utoipa::path(get, path = "/api/v1/session", tag = "session",
    responses((status = 200, description = "The caller and the server.", body = SessionView)))]
async fn show(State(app): State<App>, caller: Caller) -> Json<SessionView> {
    const DAY: u64 = 24 * 3600;
    let options = &app.options;
    Json(SessionView {
        name: caller.name,
        role: caller.role.into(),
        scope: caller.scope.into(),
        expires_at: caller.expires_at.map(Into::into),
        environment: Environment { name: options.environment.clone() },
        version: env!("CARGO_PKG_VERSION").into(),
        store: options.store_kind.clone(),
        broker: options.broker.as_ref().map(|_| "rabbitmq".into()),
        links: options.links.clone(),
        limits: Limits {
            max_attempts: options.retry.max_attempts,
            backoff_cap_seconds: options.retry.cap.as_secs(),
            backoff_jitter: options.retry.jitter,
            lease_seconds: options.lease.as_secs(),
            redrive_max_count: options.redrive.max_count,
            redrive_horizon_days: options.redrive.horizon.as_secs() / DAY,
            inbox_days: options.retention.inbox.as_secs() / DAY,
            finished_days: options.retention.finished.as_secs() / DAY,
            dead_head: match options.dead_head {
                DeadHead::Hold => DeadHeadView::Hold,
                DeadHead::Skip => DeadHeadView::Skip,
            },
        },
    })
}
