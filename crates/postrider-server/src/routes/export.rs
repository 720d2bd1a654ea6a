//! Events of a filter as a file: lines of JSON, or a table for spreadsheets. Streamed page by page, so that the memory does not
//! depend on the number of rows.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use postrider::store::access::explain;
use postrider::store::{Cursor, Filter, List};
use postrider::{Scope, limits as events};
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::Caller;
use crate::filter::FilterIn;
use crate::input::{self, Query};
use crate::problem::Problem;
use crate::view::summaries;
use crate::{App, broker};

/// Rows of one file: as many as spreadsheets open in comfort.
const ROWS: usize = 100_000;

/// The columns of the table: the fields of a summary.
const COLUMNS: [&str; 31] = [
    "eventId",
    "topic",
    "status",
    "key",
    "createdAt",
    "occurredAt",
    "sentAt",
    "lastSentAt",
    "updatedAt",
    "statusAt",
    "expireAt",
    "attempts",
    "retryCount",
    "expectedConsumers",
    "consumedConsumers",
    "failedConsumers",
    "retryingConsumers",
    "held",
    "lastError",
    "traceId",
    "spanId",
    "parentEventId",
    "cloudEventId",
    "aggregateType",
    "aggregateId",
    "tenantId",
    "storeId",
    "initiator.service",
    "initiator.operation",
    "initiator.userId",
    "initiator.clientRequestId",
];

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(export))
}

/// The form of an export.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExportFormat)]
enum Format {
    /// A summary as JSON in each line.
    #[default]
    Jsonl,
    /// A table with a line of headings.
    Csv,
}

/// The form; [`Wanted`] reads it, and this type is for the document.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the document is made of it")]
struct FormatIn {
    /// `jsonl` where it is missing.
    #[param(inline)]
    format: Option<Format>,
}

/// A query that names events and a form.
struct Wanted {
    filter: FilterIn,
    format: Format,
}

impl FromRequestParts<App> for Wanted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, app).await?;
        let (formats, rest): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(name, _)| name == "format");
        let format = match formats.as_slice() {
            [] => Format::default(),
            [(_, format)] if format == "jsonl" => Format::Jsonl,
            [(_, format)] if format == "csv" => Format::Csv,
            [_] => return Err(Problem::bad_query("format", "must be jsonl or csv")),
            _ => return Err(Problem::bad_query("format", "may be given once")),
        };
        Ok(Self { filter: input::filter(rest)?, format })
    }
}

/// Events as a file
///
/// The events that match, the newest first, up to 100,000: as lines of JSON, or as a table. Payloads are not among them. A text that
/// a spreadsheet would take for a formula begins with `'` in the table. If the connection breaks before the last line, the file is
/// not complete.
#[utoipa::path(get, path = "/api/v1/export", tag = "events", params(FormatIn, FilterIn),
    responses((status = 200, description = "The file.",
        content((String = "application/jsonl"), (String = "text/csv")))))]
async fn export(State(app): State<App>, caller: Caller, wanted: Wanted) -> Result<Response, Problem> {
    let filter = wanted.filter.into_filter(&app, &caller.scope).await.map_err(Problem::in_query)?;
    let detail = serde_json::to_string(&filter).unwrap_or_default();
    explain(None, Some(&format!("filter={detail}")));
    let (media_type, name, head) = match wanted.format {
        Format::Jsonl => ("application/jsonl", "events.jsonl", String::new()),
        Format::Csv => ("text/csv; charset=utf-8; header=present", "events.csv", line(COLUMNS.iter().copied())),
    };
    let mut pages =
        Pages { app, scope: caller.scope, format: wanted.format, filter, after: None, left: ROWS, ended: false };
    // The first page before the answer: what is wrong with the store or the filter is then a status.
    let first = head + &pages.next().await?;
    let body = stream::unfold((Some(first), pages), async |(first, mut pages)| {
        if let Some(first) = first {
            return Some((Ok(Bytes::from(first)), (None, pages)));
        }
        if pages.ended {
            return None;
        }
        let page = pages.next().await.map(Bytes::from);
        if let Err(error) = &page {
            pages.ended = true;
            tracing::warn!(%error, "an export has ended before its last line");
        }
        Some((page, (None, pages)))
    });
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [(CONTENT_TYPE, media_type.to_owned()), (CONTENT_DISPOSITION, disposition)];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// The pages of an export.
struct Pages {
    app: App,
    scope: Scope,
    format: Format,
    filter: Filter,
    after: Option<Cursor>,
    left: usize,
    ended: bool,
}

impl Pages {
    /// The lines of the next page. Marks the end.
    async fn next(&mut self) -> postrider::Result<String> {
        let limit = events::PAGE_EVENTS.min(u32::try_from(self.left).unwrap_or(u32::MAX));
        let list = List { filter: self.filter.clone(), limit, after: self.after };
        let mut page = self.app.store.list(&list).await?;
        page.events.iter_mut().for_each(|record| self.scope.cut(record));
        broker::explain(&self.app, &mut page.events).await?;
        self.left = self.left.saturating_sub(page.events.len());
        self.after = page.next;
        self.ended = page.next.is_none() || self.left == 0;
        let mut lines = String::new();
        for summary in summaries(&page.events) {
            let summary = serde_json::to_value(&summary).map_err(postrider::Error::Encode)?;
            match self.format {
                Format::Jsonl => {
                    lines.push_str(&summary.to_string());
                    lines.push('\n');
                }
                Format::Csv => lines.push_str(&line(COLUMNS.iter().map(|column| cell(&summary, column)))),
            }
        }
        Ok(lines)
    }
}

/// The value of a column as text.
fn cell(summary: &Value, column: &str) -> String {
    let mut value = summary;
    for part in column.split('.') {
        value = &value[part];
    }
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A line of a table, as RFC 4180 has it.
fn line(cells: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|cell| harmless(cell.as_ref())).collect();
    cells.join(",") + "\r\n"
}

/// A cell that no spreadsheet takes for a formula, quoted where needed.
fn harmless(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\r', '\n']) || is_formula {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_only_text() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"] {
            assert_eq!(harmless(formula), format!("\"'{formula}\""));
        }
        assert_eq!(harmless("=HYPERLINK(\"http://a\")"), "\"'=HYPERLINK(\"\"http://a\"\")\"");
        assert_eq!(line(["a", "b,c", "say \"x\"", "", "2\n3", "a=b"]), "a,\"b,c\",\"say \"\"x\"\"\",,\"2\n3\",a=b\r\n");
    }
}
