//! `postrider publish`: one event, from the command line.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::client::{Remote, escaped};
use crate::{Context, End, output, print_note};

/// The poll interval while waiting.
const LOOK: Duration = Duration::from_millis(200);
/// How long to wait for an event to be consumed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Publish an event
#[derive(Args)]
#[command(after_help = "Examples:
  postrider publish order.paid --data '{\"orderId\": 7}'
  postrider publish order.paid --data '{\"orderId\": 7}' --key order-7 --wait
  postrider publish order.paid --data @order.json            from a file
  make-order | postrider publish order.paid --data -         from another command
  postrider publish notification.sent --data '{}' --parent EVENT_ID

Exits with 4 if no consumer subscribes to the topic and the event was not stored, or if --wait sees that a consumer gave up.")]
pub(crate) struct Publish {
    /// The topic
    topic: String,
    /// The payload as JSON; `@FILE` reads it from a file, `-` from stdin
    #[arg(long, value_name = "JSON")]
    data: String,
    /// The key: events of one key are delivered in order
    #[arg(long)]
    key: Option<String>,
    /// The event that caused this one
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// The event id; publishing the same id again is the same event
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Wait until every consumer has succeeded or given up
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    remote: Remote,
}

impl Publish {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let payload = payload(&self.data)?;
        let topic = self.topic;
        let mut event = json!({ "topic": topic, "payload": payload });
        for (field, value) in [("key", self.key), ("parentEventId", self.parent), ("eventId", self.id)] {
            if let Some(value) = value {
                event[field] = value.into();
            }
        }
        if let Some(trace) = trace_of(&self.remote, &event["parentEventId"]).await? {
            event["traceId"] = trace;
        }
        let published = self.remote.post("/events", &event).await?;
        output::one(context.output, &published);
        let is_kept = published["outcome"] == "unheard";
        if is_kept || published["outcome"] == "skipped" {
            let becomes = if is_kept { "kept until there is one" } else { "not stored" };
            print_note(format!("no consumer subscribes to {topic}: the event is {becomes}"));
            return if is_kept { Ok(()) } else { Err(End::Partly) };
        }
        match published["eventId"].as_str() {
            Some(id) if self.wait => wait(&self.remote, id).await,
            _ => Ok(()),
        }
    }
}

fn payload(data: &str) -> Result<Value, End> {
    let unreadable = |from: &str, error: &dyn std::fmt::Display| End::Usage(format!("--data {from}: {error}"));
    let text = match data.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).map_err(|error| unreadable(data, &error))?,
        None if data == "-" => std::io::read_to_string(std::io::stdin()).map_err(|error| unreadable("-", &error))?,
        None => data.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| unreadable("is no JSON", &error))
}

/// The trace of the parent, which the event joins; `None` without a parent, or if it has been pruned.
async fn trace_of(remote: &Remote, parent: &Value) -> Result<Option<Value>, End> {
    let Some(id) = parent.as_str() else { return Ok(None) };
    match remote.get(&format!("/events/{}", escaped(id))).await {
        Ok(mut parent) => Ok(Some(parent["traceId"].take()).filter(Value::is_string)),
        Err(End::NotFound(_)) => Ok(None),
        Err(end) => Err(end),
    }
}

/// Waits until an event is finished, and prints each new status.
async fn wait(remote: &Remote, event_id: &str) -> Result<(), End> {
    let (began, mut last) = (tokio::time::Instant::now(), String::new());
    loop {
        let shown = remote.get(&format!("/events/{}", escaped(event_id))).await?;
        let status = shown["status"].as_str().unwrap_or_default().to_owned();
        if status != last {
            print_note(format!("{status}: {}/{} consumed", shown["consumedConsumers"], shown["expectedConsumers"]));
        }
        match status.as_str() {
            "CONSUMED" => return Ok(()),
            "FAILED" | "PARTIAL" | "EXPIRED" => return Err(End::Partly),
            _ if began.elapsed() > PATIENCE => {
                return Err(End::Wrong(format!("{event_id} is still {status} after {PATIENCE:?}")));
            }
            _ => {}
        }
        last = status;
        tokio::time::sleep(LOOK).await;
    }
}
