//! Instances: which process holds what now.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::problem::Problem;
use crate::view::At;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// A process that works, and what it has in hand.
#[derive(Serialize, ToSchema)]
struct Instance {
    owner: String,
    holdings: Vec<HoldingView>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Holding)]
struct HoldingView {
    /// `lane`, `lease`, `job` or `operation`.
    kind: String,
    name: String,
    /// How many deliveries, for a lane; 1 for the others.
    count: u64,
    /// Until when, unless it is extended.
    until: At,
}

#[derive(Serialize, ToSchema)]
struct Instances {
    /// Those that hold something, by name.
    instances: Vec<Instance>,
}

/// Who holds what: leased deliveries, named leases, running jobs, bulk operations
#[utoipa::path(get, path = "/api/v1/instances", tag = "operations",
    responses((status = 200, description = "The instances.", body = Instances)))]
async fn list(State(app): State<App>) -> Result<Json<Instances>, Problem> {
    let mut owners: BTreeMap<String, Vec<HoldingView>> = BTreeMap::new();
    for one in app.store.holdings().await? {
        let view = HoldingView { kind: one.kind, name: one.name, count: one.count, until: one.until.into() };
        owners.entry(one.owner).or_default().push(view);
    }
    let instances = owners.into_iter().map(|(owner, holdings)| Instance { owner, holdings }).collect();
    Ok(Json(Instances { instances }))
}
