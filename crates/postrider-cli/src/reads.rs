//! Commands that show what the API tells: `failures`, `topics`, `jobs`, `instances`, `config` and `audit`.

use clap::Args;
use serde_json::{Value, json};

use crate::client::{Remote, given, rows};
use crate::{Context, End, output};

/// A list of the API that has no parameters.
#[derive(Args)]
pub(crate) struct Read {
    #[command(flatten)]
    remote: Remote,
}

/// What a command reads and shows.
pub(crate) struct List {
    path: &'static str,
    rows: &'static str,
    columns: &'static [&'static str],
}

pub(crate) const FAILURES: List = List {
    path: "/failures",
    rows: "groups",
    columns: &["consumerId", "errorCode", "count", "dead", "first", "last", "sampleEventId", "sample"],
};
pub(crate) const TOPICS: List =
    List { path: "/topics", rows: "topics", columns: &["topic", "events", "unheard", "subscribers", "lastSeenAt"] };
pub(crate) const JOBS: List = List {
    path: "/jobs",
    rows: "jobs",
    columns: &["name", "schedule", "timeZone", "lastFire", "success", "nextFire", "owner", "message"],
};
pub(crate) const INSTANCES: List =
    List { path: "/instances", rows: "instances", columns: &["owner", "kind", "name", "count", "until"] };
pub(crate) const CONFIG: List = List { path: "/config", rows: "settings", columns: &["key", "value", "origin"] };

impl Read {
    pub(crate) async fn run(self, context: &Context, list: List) -> Result<(), End> {
        let mut read = rows(&self.remote.get(list.path).await?, list.rows);
        if list.path == INSTANCES.path && context.output == output::Format::Table {
            read = read.iter().flat_map(holdings).collect();
        }
        output::list(context.output, &read, list.columns);
        Ok(())
    }
}

/// A row for each thing that an instance holds.
fn holdings(instance: &Value) -> Vec<Value> {
    let mut holdings = rows(instance, "holdings");
    for holding in &mut holdings {
        holding["owner"] = instance["owner"].clone();
    }
    holdings
}

/// Whether the promises hold.
#[derive(Args)]
pub(crate) struct Promises {
    #[command(flatten)]
    remote: Remote,
}

impl Promises {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let promises = rows(&self.remote.get("/promises").await?, "promises");
        let broken: Vec<_> = promises.iter().filter(|one| one["ok"] == false).collect();
        let names: Vec<_> = broken.iter().filter_map(|one| one["name"].as_str()).collect();
        match context.output {
            output::Format::Table => {
                let lines: Vec<_> = promises.iter().flat_map(promise_lines).collect();
                output::list(context.output, &lines, &["promise", "holds", "since", "checkedAt", "finding"]);
            }
            format => output::list(format, &promises, &[]),
        }
        if promises.is_empty() {
            return Err(End::Wrong("no process has checked the promises within a day: start `postrider serve`".into()));
        }
        match names[..] {
            [] => Ok(()),
            _ => Err(End::Wrong(format!("broken: {}", names.join(", ")))),
        }
    }
}

/// A line with the figures, and one for each finding.
fn promise_lines(promise: &Value) -> Vec<Value> {
    let figures = promise["figures"].as_object().into_iter().flatten();
    let figures: Vec<_> = figures.map(|(name, value)| format!("{value} {name}")).collect();
    let holds = if promise["ok"] == true { "yes" } else { "no" };
    let first = json!({
        "promise": promise["name"], "holds": holds, "since": promise["since"], "checkedAt": promise["checkedAt"],
        "finding": figures.join(", "),
    });
    let findings = rows(promise, "findings").into_iter().map(|one| json!({ "finding": one["what"] }));
    std::iter::once(first).chain(findings).collect()
}

/// Who did what, the newest first
#[derive(Args)]
#[command(after_help = "Examples:
  postrider audit
  postrider audit --actor ada --from 2026-03-01T00:00:00Z
  postrider audit --action 'POST /api/v1/tokens' -o jsonl")]
pub(crate) struct Audit {
    /// By this token
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Of this action, such as `POST /api/v1/tokens`
    #[arg(long)]
    action: Option<String>,
    /// Of this target, such as `/consumers/points/pause`
    #[arg(long)]
    target: Option<String>,
    /// At this time or later, as 2026-02-28T10:05:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// The most records to list
    #[arg(long, default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    remote: Remote,
}

impl Audit {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let filter = given([
            ("actor", &self.actor),
            ("action", &self.action),
            ("target", &self.target),
            ("from", &self.from),
            ("to", &self.to),
        ]);
        let records = self.remote.pages("/audit", "records", &filter, self.limit).await?;
        output::list(context.output, &records, &["at", "actor", "role", "action", "target", "outcome", "reason"]);
        Ok(())
    }
}
