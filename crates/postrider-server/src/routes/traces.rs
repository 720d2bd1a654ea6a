//! Traces: everything that one request caused, as a timeline and as a tree.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use postrider::lineage::{self, Node};
use postrider::status::EventStatus;
use postrider::store::{Cursor, Record};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::auth::Caller;
use crate::input::{self, Path, Query};
use crate::problem::Problem;
use crate::view::{ConsumptionView, DeliveryView, EventSummary, LaneAttempts, consumptions, deliveries, summaries};

/// The depth of the tree: publishers choose ids and parents, so a chain has no natural end, and many JSON parsers stop at
/// 128 brackets, two per generation. The timeline has every event.
const GENERATIONS: usize = 60;
/// Traces on a page, and at most: each is read with all its events.
const PAGE_DEFAULT: usize = 20;
const PAGE_TRACES: usize = 50;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show))
}

/// All events of a trace.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Trace)]
struct TraceView {
    trace_id: String,
    /// By the time at which they occurred.
    events: Vec<EventSummary>,
    /// Who caused whom. What has no parent here is a root.
    roots: Vec<TraceNode>,
    /// Whether there are more events, of which these are the newest.
    cut: bool,
}

/// An event, and what it caused.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TraceNode {
    #[serde(flatten)]
    event: EventSummary,
    /// Every attempt, where they are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<ConsumptionView>, required = false)]
    consumptions: Option<Vec<ConsumptionView>>,
    /// What still waits, where the attempts are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<DeliveryView>, required = false)]
    deliveries: Option<Vec<DeliveryView>>,
    #[schema(no_recursion)]
    children: Vec<TraceNode>,
}

/// A trace in a list, by its first event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TraceRoot {
    trace_id: String,
    root: EventSummary,
    /// Its events, at most 1,000.
    events: usize,
    /// Of those, events that a consumer gave up.
    failed: usize,
    /// Of those, events that are tried again.
    retrying: usize,
    /// The services that wrote them, by name.
    services: Vec<String>,
    /// From the first event until the last change.
    duration_ms: u64,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TracePage {
    /// The newest first. May be fewer than asked for, or none, and there may be more all the same.
    traces: Vec<TraceRoot>,
    /// To be sent as `cursor` for the next page; absent on the last page.
    next_cursor: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PageIn {
    /// Traces at most; 20 where it is missing.
    #[param(minimum = 1, maximum = 50)]
    limit: Option<usize>,
    /// Where the last page ended.
    cursor: Option<String>,
}

/// Traces by their first event, the newest first
#[utoipa::path(get, path = "/api/v1/traces", tag = "events", params(PageIn),
    responses((status = 200, description = "A page of traces.", body = TracePage)))]
async fn list(State(app): State<App>, caller: Caller, Query(page): Query<PageIn>) -> Result<Json<TracePage>, Problem> {
    let limit = page.limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_TRACES).contains(&limit) {
        return Err(Problem::bad_query("limit", format!("must be 1 to {PAGE_TRACES}, is {limit}")));
    }
    let after = page.cursor.as_deref().map(str::parse::<Cursor>).transpose();
    let after = after.map_err(|_| Problem::bad_query("cursor", "is not the nextCursor of a page"))?;
    let newest = lineage::newest(&*app.store, limit, after, &caller.scope).await?;
    let cut = |mut trace: lineage::Trace| {
        trace.events.iter_mut().for_each(|record| caller.scope.cut(record));
        trace
    };
    let traces = newest.traces.into_iter().filter_map(|(id, trace)| root(id, &cut(trace).events)).collect();
    Ok(Json(TracePage { traces, next_cursor: newest.next.map(|next| next.to_string()) }))
}

fn root(trace_id: String, events: &[Record]) -> Option<TraceRoot> {
    let first = events.iter().find(|event| event.envelope.parent_event_id.is_none()).or(events.first())?;
    let standings: Vec<_> = events.iter().map(Record::standing).collect();
    let count = |wanted: &[EventStatus]| standings.iter().filter(|one| wanted.contains(&one.status)).count();
    let services = events.iter().filter_map(|event| event.envelope.initiator.service.clone());
    let ended = standings.iter().map(|standing| standing.updated_at).max()?;
    let began = events.iter().map(|event| event.created_at).min()?;
    Some(TraceRoot {
        trace_id,
        root: first.into(),
        events: events.len(),
        failed: count(&[EventStatus::Failed, EventStatus::Partial]),
        retrying: count(&[EventStatus::Retrying]),
        services: services.collect::<BTreeSet<_>>().into_iter().collect(),
        duration_ms: u64::try_from((ended - began).whole_milliseconds()).unwrap_or_default(),
    })
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Shown {
    /// Whether each event of the tree has its attempts.
    #[serde(default)]
    attempts: bool,
}

/// Everything that happened under a trace id
#[utoipa::path(get, path = "/api/v1/traces/{traceId}", tag = "events",
    params(("traceId" = String, Path, description = "Its id."), Shown),
    responses((status = 200, description = "The events, as a timeline and as a tree.", body = TraceView)))]
async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(trace_id): Path<String>,
    Query(shown): Query<Shown>,
) -> Result<Json<TraceView>, Problem> {
    let unknown = || Problem::not_found("no event belongs to such a trace");
    // What cannot be an id is answered without a query.
    input::label("traceId", &trace_id).map_err(|_| unknown())?;
    let mut trace = lineage::trace(&*app.store, &trace_id, &caller.scope).await?;
    trace.events.iter_mut().for_each(|record| caller.scope.cut(record));
    if trace.events.is_empty() {
        return Err(unknown());
    }
    let lanes = if shown.attempts { Some(LaneAttempts::read(&app).await?) } else { None };
    let roots = nodes(&trace.roots, &trace.events, GENERATIONS, lanes.as_ref());
    Ok(Json(TraceView { trace_id, events: summaries(&trace.events), roots, cut: trace.cut }))
}

/// The tree of events; with `lanes`, each has its attempts.
fn nodes(tree: &[Node], events: &[Record], generations: usize, lanes: Option<&LaneAttempts>) -> Vec<TraceNode> {
    let Some(below) = generations.checked_sub(1) else { return Vec::new() };
    let node = |node: &Node| {
        let found = events.get(node.event)?;
        Some(TraceNode {
            event: found.into(),
            consumptions: lanes.map(|_| consumptions(found)),
            deliveries: lanes.map(|lanes| deliveries(found, lanes)),
            children: nodes(&node.children, events, below, lanes),
        })
    };
    tree.iter().filter_map(node).collect()
}
