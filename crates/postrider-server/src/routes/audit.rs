//! The audit: who did what.

use axum::Json;
use axum::extract::State;
use postrider::limits::AUDIT_TARGET_CHARS;
use postrider::store::access::{self, AuditQuery, AuditRecord, verify_audit};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::input::{self, Query, Time};
use crate::problem::Problem;
use crate::view::{AnyJson, At};
use crate::{App, limits};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(check))
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
    /// The role of the token.
    role: Option<String>,
    action: String,
    target: Option<String>,
    /// The status of the answer.
    outcome: String,
    /// Why.
    reason: Option<String>,
    request_id: Option<String>,
    detail: Option<String>,
    /// What was there before the change.
    #[schema(value_type = AnyJson, required = true)]
    before: Option<AnyJson>,
    /// What was there after it.
    #[schema(value_type = AnyJson, required = true)]
    after: Option<AnyJson>,
}

impl From<AuditRecord> for RecordView {
    fn from(record: AuditRecord) -> Self {
        Self {
            id: record.number.to_string(),
            at: record.at.into(),
            actor: record.actor,
            token_id: record.token_id,
            role: record.role,
            action: record.action,
            target: record.target,
            outcome: record.outcome,
            reason: record.reason,
            request_id: record.request_id,
            detail: record.detail,
            before: record.before.map(|text| AnyJson::of(&text, true)),
            after: record.after.map(|text| AnyJson::of(&text, true)),
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
    /// By this actor.
    actor: Option<String>,
    /// Of this action, such as `POST /api/v1/tokens`.
    action: Option<String>,
    /// Of this target, such as `/consumers/points/pause`.
    target: Option<String>,
    /// At this time or later.
    #[param(value_type = Option<Time>)]
    from: Option<Time>,
    /// Before this time.
    #[param(value_type = Option<Time>)]
    to: Option<Time>,
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
    for (field, text) in [("actor", &page.actor), ("action", &page.action)] {
        if let Some(text) = text {
            input::short(field, text, limits::LABEL_CHARS).map_err(Problem::in_query)?;
        }
    }
    if let Some(target) = &page.target {
        input::short("target", target, AUDIT_TARGET_CHARS).map_err(Problem::in_query)?;
    }
    let query = AuditQuery {
        before,
        limit,
        actor: page.actor,
        action: page.action,
        target: page.target,
        from: page.from.map(|at| at.0),
        to: page.to.map(|at| at.0),
    };
    let records = app.store.find_audit(&query).await?;
    let is_full = records.len() == limit as usize;
    let next_cursor = records.last().filter(|_| is_full).map(|record| record.number.to_string());
    Ok(Json(Audit { records: records.into_iter().map(Into::into).collect(), next_cursor }))
}

/// Whether the chain of the audit is whole.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AuditCheck {
    ok: bool,
    /// The records that were checked. A new record is in the chain after a second or two.
    checked: u64,
    /// What is missing or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Whether a record of the audit is missing or was changed
///
/// It reads the whole audit.
#[utoipa::path(get, path = "/api/v1/audit/check", tag = "operations", responses((status = 200, description = "What was found.", body = AuditCheck)))]
async fn check(State(app): State<App>) -> Result<Json<AuditCheck>, Problem> {
    Ok(Json(match verify_audit(&*app.store).await? {
        access::AuditCheck::Whole(checked) => AuditCheck { ok: true, checked, problem: None },
        access::AuditCheck::Broken(fault) => AuditCheck { ok: false, checked: 0, problem: Some(fault.to_string()) },
    }))
}
