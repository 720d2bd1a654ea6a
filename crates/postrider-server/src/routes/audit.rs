//! The audit: who did what.

use axum::Json;
use axum::extract::State;
use postrider::store::access::AuditRecord;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::input::Query;
use crate::problem::Problem;
use crate::view::At;
use crate::{App, limits};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// An action of a caller, done or refused.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditRecord)]
struct RecordView {
    id: String,
    at: At,
    /// The name of the token.
    actor: String,
    token_id: Option<String>,
    action: String,
    target: Option<String>,
    /// The status of the answer.
    outcome: String,
    request_id: Option<String>,
    detail: Option<String>,
}

impl From<AuditRecord> for RecordView {
    fn from(record: AuditRecord) -> Self {
        Self {
            id: record.number.to_string(),
            at: record.at.into(),
            actor: record.actor,
            token_id: record.token_id,
            action: record.action,
            target: record.target,
            outcome: record.outcome,
            request_id: record.request_id,
            detail: record.detail,
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Audit {
    records: Vec<RecordView>,
    /// To be sent as `cursor` for the next page; absent on the last page.
    next_cursor: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Records at most; 50 where it is missing.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// Where the last page ended.
    cursor: Option<String>,
}

/// Who did what, newest first
#[utoipa::path(get, path = "/api/v1/audit", tag = "operations", params(Page), responses((status = 200, description = "A page of records.", body = Audit)))]
async fn list(State(app): State<App>, Query(page): Query<Page>) -> Result<Json<Audit>, Problem> {
    let limit = page.limit.unwrap_or(limits::PAGE_DEFAULT);
    if !(1..=limits::PAGE_ROWS).contains(&limit) {
        return Err(Problem::bad_query("limit", format!("must be 1 to {}, is {limit}", limits::PAGE_ROWS)));
    }
    let before = page.cursor.as_deref().map(str::parse::<i64>).transpose();
    let before = before.map_err(|_| Problem::bad_query("cursor", "is not the nextCursor of a page"))?;
    let records = app.store.audit(before, limit).await?;
    let is_full = records.len() == limit as usize;
    let next_cursor = records.last().filter(|_| is_full).map(|record| record.number.to_string());
    Ok(Json(Audit { records: records.into_iter().map(Into::into).collect(), next_cursor }))
}
