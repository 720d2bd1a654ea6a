//! The health of the whole installation: the store, the broker, every process, and what no process runs.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use postrider::presence::{self, BrokerReport, BrokerState, Unserved};
use postrider::store::{Instance, LIVE, StoredAlert};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;
use crate::view::At;
use crate::{App, broker};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

/// The health of an installation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Health {
    /// Whether nothing of what follows needs a person.
    ok: bool,
    store: StoreHealth,
    /// Absent if no live process has a broker.
    broker: Option<BrokerHealth>,
    /// The live processes, by id.
    instances: Vec<InstanceView>,
    /// Lanes with deliveries that wait and that no live process serves.
    unserved_lanes: Vec<UnservedLaneView>,
    /// Loops that no live process runs.
    unserved_loops: Vec<UnservedLoopView>,
    /// The alerts that fire, and those whose end is not sent yet.
    alerts: Vec<AlertView>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct StoreHealth {
    /// `memory`, `sqlite`, `postgres` or `mysql`.
    kind: &'static str,
    /// The version of the database.
    version: String,
    /// How long a small query took.
    latency_ms: f64,
    schema: SchemaHealth,
    /// By table, or of the whole database.
    sizes: Vec<Size>,
    /// How much the database's clock is ahead of this machine's.
    clock_difference_ms: i64,
}

#[derive(Serialize, ToSchema)]
struct SchemaHealth {
    found: i64,
    needed: i64,
}

#[derive(Serialize, ToSchema)]
struct Size {
    name: String,
    bytes: u64,
}

#[derive(Serialize, ToSchema)]
struct BrokerHealth {
    /// `unused`, `connected`, `blocked` or `away`.
    state: &'static str,
    since: At,
    error: Option<String>,
}

impl From<&BrokerReport> for BrokerHealth {
    fn from(report: &BrokerReport) -> Self {
        let state = match report.state {
            BrokerState::Unused => "unused",
            BrokerState::Connected => "connected",
            BrokerState::Blocked => "blocked",
            BrokerState::Away => "away",
        };
        Self { state, since: report.since.into(), error: report.error.clone() }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LiveInstance)]
struct InstanceView {
    instance_id: String,
    /// `all`, `api`, `relay`, `demo` or `service`.
    role: String,
    version: String,
    started_at: At,
    seen_at: At,
    /// The lanes that it serves.
    lanes: Vec<String>,
    /// The loops that it runs.
    loops: Vec<String>,
    broker: Option<BrokerHealth>,
}

impl From<Instance> for InstanceView {
    fn from(one: Instance) -> Self {
        Self {
            instance_id: one.instance_id,
            role: one.role,
            version: one.version,
            started_at: one.started_at.into(),
            seen_at: one.seen_at.into(),
            broker: one.running.broker.as_ref().map(Into::into),
            lanes: one.running.lanes.into_iter().collect(),
            loops: one.running.loops.into_iter().collect(),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = UnservedLane)]
struct UnservedLaneView {
    lane: String,
    waiting: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = UnservedLoop)]
struct UnservedLoopView {
    name: &'static str,
    /// What happens without it.
    without: &'static str,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Alert)]
struct AlertView {
    alert: &'static str,
    /// `firing` or `over`.
    state: &'static str,
    since: At,
    consumer: Option<String>,
    /// Whether its beginning was sent.
    sent: bool,
}

impl From<StoredAlert> for AlertView {
    fn from(alert: StoredAlert) -> Self {
        Self {
            alert: alert.kind.as_str(),
            state: if alert.over_at.is_some() { "over" } else { "firing" },
            since: alert.since.into(),
            consumer: alert.subject,
            sent: alert.sent,
        }
    }
}

/// Whether the installation is well: store, broker, processes, and what no process runs
#[utoipa::path(get, path = "/api/v1/health", tag = "operations", responses((status = 200, description = "The health.", body = Health)))]
async fn show(State(app): State<App>) -> Result<Json<Health>, Problem> {
    let asked = Instant::now();
    let now = app.store.now().await?;
    let latency = asked.elapsed();
    // The answer was made about half-way.
    let difference = now - (OffsetDateTime::now_utc() - latency / 2);
    let store = store_health(&app, latency, difference).await?;
    let instances = app.store.instances(LIVE).await?;
    let broker: Option<BrokerHealth> = broker::state(&instances).map(Into::into);
    let Unserved { lanes, loops, .. } = presence::unserved(&*app.store).await?;
    let alerts: Vec<AlertView> = app.store.alerts().await?.into_iter().map(Into::into).collect();
    let is_broker_well = broker.as_ref().is_none_or(|broker| matches!(broker.state, "unused" | "connected"));
    Ok(Json(Health {
        ok: is_broker_well && lanes.is_empty() && loops.is_empty() && alerts.iter().all(|one| one.state == "over"),
        store,
        broker,
        instances: instances.into_iter().map(Into::into).collect(),
        unserved_lanes: lanes
            .into_iter()
            .map(|one| UnservedLaneView { lane: one.lane, waiting: one.waiting })
            .collect(),
        unserved_loops: loops.into_iter().map(|(name, without)| UnservedLoopView { name, without }).collect(),
        alerts,
    }))
}

async fn store_health(app: &App, latency: Duration, difference: time::Duration) -> postrider::Result<StoreHealth> {
    let schema = app.store.schema_version().await?;
    let about = app.store.about().await?;
    Ok(StoreHealth {
        kind: about.kind,
        version: about.version,
        latency_ms: latency.as_secs_f64() * 1_000.0,
        schema: SchemaHealth { found: schema.found, needed: schema.needed },
        sizes: about.sizes.into_iter().map(|(name, bytes)| Size { name, bytes }).collect(),
        clock_difference_ms: i64::try_from(difference.whole_milliseconds()).unwrap_or(i64::MAX),
    })
}
