//! Lists of events, page by page, the newest first.

use axum::Json;
use axum::extract::State;
use postrider::store::{Cursor, List};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::Caller;
use crate::filter::FilterIn;
use crate::input::Wanted;
use crate::problem::Problem;
use crate::view::{EventSummary, summaries};
use crate::{App, broker};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Which page. [`Wanted`] reads it; this type is for the document.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the document is made of it")]
struct PageIn {
    /// Events at most; 50 where it is missing.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// Where the last page ended.
    cursor: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EventPage {
    /// The newest first. May be fewer than asked for, or none, and there may be more all the same.
    events: Vec<EventSummary>,
    /// To be sent as `cursor` for the next page; absent on the last page.
    next_cursor: Option<String>,
}

/// Events, the newest first
///
/// One indexed filter leads and the others are asked of what it brings, of 10,000 events a page at most: a page may be short
/// or empty and still have a `nextCursor`.
#[utoipa::path(get, path = "/api/v1/events", tag = "events", params(FilterIn, PageIn),
    responses((status = 200, description = "A page of events.", body = EventPage)))]
async fn list(State(app): State<App>, caller: Caller, wanted: Wanted) -> Result<Json<EventPage>, Problem> {
    let after = wanted.cursor.as_deref().map(str::parse::<Cursor>).transpose();
    let after = after.map_err(|_| Problem::bad_query("cursor", "is not the nextCursor of a page"))?;
    let filter = wanted.filter.into_filter(&app, &caller.scope).await.map_err(Problem::in_query)?;
    let mut page = app.store.list(&List { filter, limit: wanted.limit, after }).await?;
    page.events.iter_mut().for_each(|record| caller.scope.cut(record));
    broker::explain(&app, &mut page.events).await?;
    Ok(Json(EventPage { events: summaries(&page.events), next_cursor: page.next.map(|next| next.to_string()) }))
}
