//! Promises: whether they hold, on the rows of the store.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use postrider::promises::{self, CheckedPromise, HalfHour, PromiseFinding};
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

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Promises {
    /// When the last check was; null if no process has checked within a day.
    checked_at: Option<At>,
    promises: Vec<PromiseView>,
}

/// A promise, and whether it holds.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Promise)]
struct PromiseView {
    /// `lost`, `twice`, `stuck`, `order`, or `books`, which a service checks itself.
    name: &'static str,
    ok: bool,
    /// Numbers, by their names.
    figures: BTreeMap<String, u64>,
    /// Since when it does not hold.
    since: Option<At>,
    /// The events for which it does not hold, at most twenty.
    events: Vec<String>,
    /// Keys that wait so that their order is kept, at most twenty.
    keys: Vec<String>,
    /// What is wrong, at most twenty lines.
    findings: Vec<FindingView>,
    /// A statement that finds the same by hand. It reads whole tables.
    sql: Option<&'static str>,
    /// Which service has checked it, for `books`.
    source: Option<String>,
    checked_at: At,
    /// The last day, a half hour each.
    history: Vec<HalfHourView>,
}

/// One thing that is wrong.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PromiseFinding)]
struct FindingView {
    what: String,
    event_id: Option<String>,
    consumer_id: Option<String>,
    found_at: At,
}

/// A promise in one half hour.
#[derive(Serialize, ToSchema)]
#[schema(as = PromiseHalfHour)]
struct HalfHourView {
    /// Its beginning.
    at: At,
    /// Whether the promise held all the time.
    ok: bool,
    /// Whether events waited, so that it held.
    strained: bool,
}

impl From<CheckedPromise> for PromiseView {
    fn from(checked: CheckedPromise) -> Self {
        let finding = |one: PromiseFinding| FindingView {
            what: one.what,
            event_id: one.event_id,
            consumer_id: one.consumer_id,
            found_at: one.found_at.into(),
        };
        let half_hour = |one: HalfHour| HalfHourView { at: one.at.into(), ok: one.ok, strained: one.strained };
        let result = checked.result;
        Self {
            name: checked.name.as_str(),
            ok: result.ok,
            figures: result.figures,
            since: result.since.map(Into::into),
            events: result.events,
            keys: result.keys,
            findings: result.findings.into_iter().map(finding).collect(),
            sql: checked.name.sql(),
            source: result.source,
            checked_at: checked.checked_at.into(),
            history: checked.history.into_iter().map(half_hour).collect(),
        }
    }
}

/// Whether the promises hold: nothing lost, nothing twice, nobody stuck, order kept, books balanced
#[utoipa::path(get, path = "/api/v1/promises", tag = "operators",
    responses((status = 200, description = "The last results.", body = Promises)))]
async fn list(State(app): State<App>) -> Result<Json<Promises>, Problem> {
    let checked = promises::checked(&*app.store).await?;
    let checked_at = checked.iter().map(|one| one.checked_at).max().map(Into::into);
    Ok(Json(Promises { checked_at, promises: checked.into_iter().map(Into::into).collect() }))
}
