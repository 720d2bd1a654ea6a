//! `postrider top`: the live picture in a terminal.

use std::time::Duration;

use clap::Args;
use console::Term;
use serde_json::{Value, json};

use crate::client::{Remote, rows};
use crate::{Context, End, output, print_data};

/// The live picture: rates, what waits, consumers and failures; Ctrl-C ends it
#[derive(Args)]
#[command(after_help = "Examples:
  postrider top
  postrider top --every 5
  postrider top > picture.txt       one picture: the output is no terminal")]
pub(crate) struct Top {
    /// Seconds between two pictures
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    #[command(flatten)]
    remote: Remote,
}

/// The worst consumers and the largest groups of failures that are shown.
const CONSUMERS: usize = 15;
const FAILURES: usize = 5;

impl Top {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let terminal = Term::stdout();
        let mut pause = tokio::time::interval(Duration::from_secs(self.every));
        loop {
            tokio::select! {
                _ = pause.tick() => {}
                stopped = tokio::signal::ctrl_c() => return stopped.map_err(|error| End::Wrong(error.to_string())),
            }
            let (stats, consumers, failures) = tokio::try_join!(
                self.remote.get("/stats?minutes=5"),
                self.remote.get("/consumers"),
                self.remote.get("/failures"),
            )?;
            if terminal.is_term() {
                terminal.clear_screen().map_err(|error| End::Wrong(error.to_string()))?;
            }
            if context.output == output::Format::Table {
                picture(&stats, &consumers, &failures);
            } else {
                output::one(
                    context.output,
                    &json!({ "stats": stats, "consumers": consumers["consumers"], "failures": failures["groups"] }),
                );
            }
            if !terminal.is_term() {
                return Ok(());
            }
        }
    }
}

fn picture(stats: &Value, consumers: &Value, failures: &Value) {
    let per_minute = |field: &str| {
        let minutes = rows(stats, "minutes");
        let sum: f64 = minutes.iter().filter_map(|minute| minute[field].as_f64()).sum();
        sum / minutes.len().max(1) as f64
    };
    let rates =
        ["created", "sent", "consumed", "failed", "dead"].map(|field| format!("{field} {:.1}", per_minute(field)));
    print_data(format!("per minute  {}", rates.join("   ")));
    let levels = ["backlog", "processing", "retrying", "held", "dead"]
        .map(|field| format!("{field} {}", output::shown(&stats[field])));
    let oldest =
        stats["oldestPendingSeconds"].as_f64().map(|seconds| format!("   oldest {seconds:.0}s")).unwrap_or_default();
    print_data(format!("now         {}{oldest}\n", levels.join("   ")));
    let number = |row: &Value, field: &str| row[field].as_u64().unwrap_or_default();
    let mut worst = rows(consumers, "consumers");
    worst.sort_by_key(|row| std::cmp::Reverse((number(row, "dead"), number(row, "retrying"), number(row, "lag"))));
    worst.truncate(CONSUMERS);
    let columns = ["consumerId", "via", "paused", "lag", "oldestAgeSeconds", "processing", "retrying", "dead", "held"];
    output::list(output::Format::Table, &worst, &columns);
    let mut groups = rows(failures, "groups");
    groups.sort_by_key(|group| std::cmp::Reverse(number(group, "count")));
    groups.truncate(FAILURES);
    if !groups.is_empty() {
        print_data("");
        output::list(output::Format::Table, &groups, &["consumerId", "count", "last", "sample"]);
    }
}
