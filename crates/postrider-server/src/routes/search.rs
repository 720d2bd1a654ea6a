//! What a text names.

use axum::Json;
use axum::extract::State;
use postrider::search::{self, Hit, Kind};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::auth::Caller;
use crate::input::Query;
use crate::problem::Problem;
use crate::view::{At, Status};

/// Hits in one answer: what a person looks through.
const HITS: usize = 20;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(find))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SearchKind)]
enum KindView {
    Event,
    Trace,
    Key,
    Aggregate,
    Topic,
    Consumer,
}

/// A thing that the text names.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SearchHit {
    kind: KindView,
    id: String,
    /// Its name for people.
    label: String,
    /// Where an event stands, and how far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<u32>,
    /// When it was stored; of a trace, a key or an aggregate, when its newest event was.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<At>,
}

impl From<Hit> for SearchHit {
    fn from(hit: Hit) -> Self {
        let standing = hit.event.as_ref().filter(|_| hit.kind == Kind::Event).map(|event| event.standing());
        Self {
            kind: match hit.kind {
                Kind::Event => KindView::Event,
                Kind::Trace => KindView::Trace,
                Kind::Key => KindView::Key,
                Kind::Aggregate => KindView::Aggregate,
                Kind::Topic => KindView::Topic,
                Kind::Consumer => KindView::Consumer,
            },
            status: standing.as_ref().map(|standing| standing.status.into()),
            consumed: standing.as_ref().map(|standing| standing.consumed),
            expected: standing.map(|standing| standing.expected),
            created_at: hit.event.map(|event| event.created_at.into()),
            id: hit.id,
            label: hit.label,
        }
    }
}

#[derive(Serialize, ToSchema)]
struct SearchHits {
    hits: Vec<SearchHit>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// An id, a trace, a key, the id of an aggregate, the beginning of one of them, or a part of a topic or a consumer.
    q: String,
}

/// What a text names: events, traces, keys, aggregates, topics and consumers
///
/// Whole ids and keys, and their beginnings from six characters up.
#[utoipa::path(get, path = "/api/v1/search", tag = "events", params(Wanted),
    responses((status = 200, description = "What it names, at most 20.", body = SearchHits)))]
async fn find(
    State(app): State<App>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
) -> Result<Json<SearchHits>, Problem> {
    let mut hits = search::search(&*app.store, wanted.q.trim(), HITS, &caller.scope).await?;
    hits.iter_mut().filter_map(|hit| hit.event.as_mut()).for_each(|record| caller.scope.cut(record));
    Ok(Json(SearchHits { hits: hits.into_iter().map(Into::into).collect() }))
}
