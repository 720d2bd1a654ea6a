//! Traces: everything that one request caused, as a timeline and as a tree.

use axum::Json;
use axum::extract::State;
use postrider::lineage::{self, Node};
use postrider::store::Found;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::input::{self, Path};
use crate::problem::Problem;
use crate::view::{EventSummary, summaries};

/// The depth of the tree: publishers choose ids and parents, so a chain has no natural end, and many JSON parsers stop at
/// 128 brackets, two per generation. The timeline has every event.
const GENERATIONS: usize = 60;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
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
    #[schema(no_recursion)]
    children: Vec<TraceNode>,
}

/// Everything that happened under a trace id
#[utoipa::path(get, path = "/api/v1/traces/{traceId}", tag = "events", params(("traceId" = String, Path, description = "Its id.")),
    responses((status = 200, description = "The events, as a timeline and as a tree.", body = TraceView)))]
async fn show(State(app): State<App>, Path(trace_id): Path<String>) -> Result<Json<TraceView>, Problem> {
    let unknown = || Problem::not_found("no event belongs to such a trace");
    // What cannot be an id is answered without a query.
    input::label("traceId", &trace_id).map_err(|_| unknown())?;
    let trace = lineage::trace(&*app.store, &trace_id).await?;
    if trace.events.is_empty() {
        return Err(unknown());
    }
    let roots = nodes(&trace.roots, &trace.events, GENERATIONS);
    Ok(Json(TraceView { trace_id, events: summaries(&trace.events), roots, cut: trace.cut }))
}

fn nodes(tree: &[Node], events: &[Found], generations: usize) -> Vec<TraceNode> {
    let Some(below) = generations.checked_sub(1) else { return Vec::new() };
    let node = |node: &Node| {
        let event = EventSummary::from(events.get(node.event)?);
        Some(TraceNode { event, children: nodes(&node.children, events, below) })
    };
    tree.iter().filter_map(node).collect()
}
