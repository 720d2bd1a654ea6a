//! How many events match a filter, and how they divide.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use postrider::facets::{self, Counts};
use postrider::store::Counted;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::auth::Caller;
use crate::filter::FilterIn;
use crate::input::Matching;
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

/// A number of events.
#[derive(Serialize, ToSchema)]
#[schema(as = Counted)]
struct CountedView {
    value: u64,
    /// Whether all were counted; otherwise the value is an estimate.
    exact: bool,
}

impl From<Counted> for CountedView {
    fn from(counted: Counted) -> Self {
        Self { value: counted.value, exact: counted.exact }
    }
}

type Facet = BTreeMap<String, CountedView>;

/// How many events match, and how they divide. What has no event is left out.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Counts)]
struct CountsView {
    total: CountedView,
    by_status: Facet,
    by_topic: Facet,
    /// By expected consumer; an event may have several.
    by_consumer: Facet,
    by_service: Facet,
    by_tenant: Facet,
}

impl From<Counts> for CountsView {
    fn from(counts: Counts) -> Self {
        let facet = |facet: BTreeMap<String, Counted>| facet.into_iter().map(|(name, n)| (name, n.into())).collect();
        let by_status = counts.by_status.into_iter().map(|(status, n)| (status.as_str().to_owned(), n.into()));
        Self {
            total: counts.total.into(),
            by_status: by_status.collect(),
            by_topic: facet(counts.by_topic),
            by_consumer: facet(counts.by_consumer),
            by_service: facet(counts.by_service),
            by_tenant: facet(counts.by_tenant),
        }
    }
}

/// How many events match, by status, topic, consumer, service and tenant
///
/// The work is bounded: of many events, each status is counted up to 10,000, and the newest 500 stand for how the rest divides.
/// Such a number is an estimate, which `exact` says.
#[utoipa::path(get, path = "/api/v1/counts", tag = "events", params(FilterIn),
    responses((status = 200, description = "The counts.", body = CountsView)))]
async fn show(State(app): State<App>, caller: Caller, Matching(filter): Matching) -> Result<Json<CountsView>, Problem> {
    let filter = filter.into_filter(&app, &caller.scope).await.map_err(Problem::in_query)?;
    Ok(Json(facets::counts(&*app.store, &filter).await?.into()))
}
