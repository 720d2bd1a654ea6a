//! `postrider events tail`: new events, and events whose status has changed, as they come.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::client::Remote;
use crate::output::{self, Format};
use crate::{Context, End, print_data, print_note};

/// The pause before another try while the server is away.
const PAUSE: Duration = Duration::from_secs(1);

/// New events, and events whose status has changed, as they come; Ctrl-C ends it
#[derive(Args)]
pub(crate) struct Tail {
    /// Only events of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only while an event has this status
    #[arg(long)]
    status: Option<String>,
    /// End after so many lines
    #[arg(long)]
    count: Option<u64>,
}

impl Tail {
    pub(crate) async fn run(self, remote: &Remote, context: &Context) -> Result<(), End> {
        tokio::select! {
            ended = self.follow(remote, context) => ended,
            stopped = tokio::signal::ctrl_c() => stopped.map_err(|error| End::Wrong(error.to_string())),
        }
    }

    /// The server ends a stream now and then, and may be restarting: then it is opened again.
    async fn follow(&self, remote: &Remote, context: &Context) -> Result<(), End> {
        let (mut left, mut is_away) = (self.count, false);
        while left != Some(0) {
            let mut stream = match remote.open("/stream").await {
                Ok(stream) => stream,
                Err(End::Away(why)) => {
                    if !std::mem::replace(&mut is_away, true) {
                        print_note(format!("{why} Trying again."));
                    }
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Err(end) => return Err(end),
            };
            // The server compares with what it has read when the stream begins, and then sends its first message.
            let (mut messages, mut begins) = (Messages::default(), true);
            while let Ok(Some(bytes)) = stream.chunk().await {
                if std::mem::take(&mut begins) {
                    print_note(if is_away { "The server answers again." } else { "following events" });
                    is_away = false;
                }
                for event in messages.add(&bytes) {
                    if self.wants(&event) && left != Some(0) {
                        print(context.output, &event);
                        left = left.map(|left| left - 1);
                    }
                }
                if left == Some(0) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn wants(&self, event: &Value) -> bool {
        let is = |wanted: &Option<String>, field: &str| wanted.as_deref().is_none_or(|wanted| event[field] == wanted);
        is(&self.topic, "topic") && is(&self.status, "status")
    }
}

fn print(format: Format, event: &Value) {
    if format != Format::Table {
        return print_data(event);
    }
    let cell = |field: &str| output::shown(&event[field]);
    // Of 2026-03-01T12:00:00.5Z.
    let updated = cell("updatedAt");
    let time = updated.get(11..19).unwrap_or(&updated);
    let consumed = format!("{}/{}", cell("consumedConsumers"), cell("expectedConsumers"));
    let error = event["lastError"].as_str().map(|_| format!("  {}", cell("lastError"))).unwrap_or_default();
    let (status, topic, id) = (cell("status"), cell("topic"), cell("eventId"));
    let line = format!("{time}  {status:9} {consumed:>5}  {topic}  {id}{error}");
    print_data(output::painted(&line));
}

/// Server-sent events, put together from pieces of the answer.
#[derive(Default)]
struct Messages {
    /// What came after the last whole line.
    rest: Vec<u8>,
    kind: String,
}

impl Messages {
    /// The summaries of events in what has come.
    fn add(&mut self, bytes: &[u8]) -> Vec<Value> {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let lines: Vec<u8> = self.rest.drain(..=end).collect();
        let mut events = Vec::new();
        for line in String::from_utf8_lossy(&lines).lines() {
            if let Some(kind) = line.strip_prefix("event:") {
                kind.trim().clone_into(&mut self.kind);
            } else if let Some(data) = line.strip_prefix("data:")
                && matches!(self.kind.as_str(), "event" | "status")
            {
                events.extend(serde_json::from_str::<Value>(data));
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_any_pieces() {
        let text = "event: stats\ndata: {\"backlog\":1}\n\nevent: status\ndata: {\"eventId\":\"é\"}\n\n: alive\n";
        for size in 1..text.len() {
            let mut messages = Messages::default();
            let events: Vec<_> = text.as_bytes().chunks(size).flat_map(|piece| messages.add(piece)).collect();
            assert_eq!(events, [serde_json::json!({ "eventId": "é" })], "pieces of {size}");
        }
    }
}
