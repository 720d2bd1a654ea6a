//! `postrider story`: everything about one business key, as a picture.

use clap::Args;
use console::style;
use serde_json::Value;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

use crate::client::{Remote, escaped, rows};
use crate::output::{self, Format};
use crate::{Context, End, print_data};

const CLOCK: &[BorrowedFormatItem<'_>] = format_description!("[hour]:[minute]:[second]");
/// Columns before the consumers: the clock and its distance.
const INDENT: usize = 10;

/// Everything about one business key: events, effects, repeats that were stopped, and what was undone
#[derive(Args)]
#[command(after_help = "Examples:
  postrider story 10492                the events with this key
  postrider story ORDER/10492          the events of this aggregate
  postrider story 10492 -o json

Times are UTC.")]
pub(crate) struct Story {
    /// The key of the events, or TYPE/ID of their aggregate
    key: String,
    #[command(flatten)]
    remote: Remote,
}

impl Story {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let by_key = self.remote.get(&format!("/stories?key={}", escaped(&self.key))).await;
        let story = match (by_key, self.key.split_once('/')) {
            // A key may have a slash too, so it is asked for first.
            (Err(End::NotFound(_)), Some((kind, id))) => {
                let aggregate = format!("aggregateType={}&aggregateId={}", escaped(kind), escaped(id));
                self.remote.get(&format!("/stories?{aggregate}")).await?
            }
            (by_key, _) => by_key?,
        };
        match context.output {
            Format::Table => print_data(picture(&story, OffsetDateTime::now_utc())),
            Format::Json => output::one(Format::Json, &story),
            Format::Jsonl => rows(&story, "events").iter().for_each(print_data),
        }
        Ok(())
    }
}

fn picture(story: &Value, now: OffsetDateTime) -> String {
    let subject = match (text(&story["aggregateType"]), text(&story["aggregateId"])) {
        (kind, id) if !kind.is_empty() => format!("{kind} {id}"),
        _ => text(&story["key"]),
    };
    let events = rows(story, "events");
    let figures = &story["figures"];
    let mut lines = vec![style(subject).bold().to_string()];
    let counts = [
        counted(&figures["events"], "event"),
        counted(&figures["effects"], "effect"),
        counted(&figures["attempts"], "attempt"),
        format!("{} stopped", counted(&figures["repeatsStopped"], "repeat")),
        format!("{} twice", figures["twice"]),
    ];
    lines.push(counts.join(" · "));
    if story["cut"] == true {
        lines.push(format!("There are more events: these are the newest {}.", events.len()));
    }
    let effects: Vec<Vec<[String; 4]>> =
        events.iter().map(|event| rows(event, "effects").iter().map(|one| effect(one, now)).collect()).collect();
    let width =
        |column: usize| effects.iter().flatten().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2)];
    for (event, effects) in events.iter().zip(&effects) {
        let mark = if event["compensation"] == true { "  compensation" } else { "" };
        let heading = format!("{}  {}", clock(&event["occurredAt"]), text(&event["topic"]));
        lines.push(String::new());
        let id = style(text(&event["eventId"])).dim();
        lines.push(format!("{}  {}{mark}  {id}", style(heading).bold(), output::painted(&text(&event["status"]))));
        let mut before = "";
        for [consumer, did, key, rest] in effects {
            let shown = if consumer == before { "and" } else { consumer.as_str() };
            before = consumer;
            let [a, b, c] = widths;
            let line = format!("{:INDENT$}{shown:a$}  {did:b$}  {key:c$}  {rest}", "");
            lines.push(line.trim_end().to_owned());
        }
    }
    let assets = rows(story, "assets");
    if !assets.is_empty() {
        let width = assets.iter().map(|one| text(&one["asset"]).chars().count()).max().unwrap_or_default();
        lines.push(format!("\n{}", style("What moved, and came back").bold()));
        for one in &assets {
            let net = if one["net"].is_null() { "unknown".into() } else { text(&one["net"]) };
            let word = if one["balanced"] == true { "balanced" } else { "" };
            lines
                .push(format!("{:INDENT$}{:width$}  {net:>12}  {word}", "", text(&one["asset"])).trim_end().to_owned());
        }
    }
    lines.join("\n")
}

/// The consumer, what it did, its key, and what else there is to say.
fn effect(one: &Value, now: OffsetDateTime) -> [String; 4] {
    let text = |name: &str| text(&one[name]);
    let mut did = if text("effect").is_empty() { text("state") } else { text("effect") };
    if one["dueAt"].is_string() {
        let due = output::cell("dueAt", &one["dueAt"], now);
        did = format!("{did}, {}", if due.starts_with("in ") { format!("next try {due}") } else { "due".into() });
    }
    let mut rest = Vec::new();
    match &*text("undoneAt") {
        "" => {}
        "waiting" => rest.push("undone later".into()),
        _ => rest.push(format!("undone {}", clock(&one["undoneAt"]))),
    }
    if one["again"] == true {
        rest.push("done before".into());
    }
    match one["repeatsStopped"].as_u64() {
        Some(0) | None => {}
        Some(_) => rest.push(format!("{} stopped", counted(&one["repeatsStopped"], "repeat"))),
    }
    if one["attempts"].as_u64() > Some(1) {
        rest.push(format!("{} tries", one["attempts"]));
    }
    let key = format!("{} {}", text("idempotencyKey"), text("keyState")).trim().to_owned();
    [text("consumerId"), did, key, rest.join(", ")]
}

/// A text that may be missing, without control characters.
fn text(value: &Value) -> String {
    if value.is_null() { String::new() } else { output::shown(value) }
}

fn counted(count: &Value, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// A time of day.
fn clock(time: &Value) -> String {
    let time = time.as_str().and_then(|time| OffsetDateTime::parse(time, &Rfc3339).ok());
    time.and_then(|time| time.to_offset(UtcOffset::UTC).format(CLOCK).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::macros::datetime;

    use super::picture;

    /// G.11: what an operator reads at night.
    #[test]
    fn the_picture_of_a_story() {
        let story = json!({
            "key": "7", "aggregateType": "ORDER", "aggregateId": "7", "cut": true,
            "figures": { "events": 2, "effects": 3, "attempts": 4, "repeatsStopped": 1, "twice": 0 },
            "events": [
                { "eventId": "order:7:paid", "topic": "order.paid", "status": "CONSUMED", "compensation": false,
                  "occurredAt": "2026-03-01T14:02:11.5Z", "effects": [
                    { "consumerId": "points", "state": "done", "effect": "spent 200", "idempotencyKey": "points:7:commit",
                      "keyState": "SUCCESS", "attempts": 2, "repeatsStopped": 1, "undoneAt": "waiting" },
                    { "consumerId": "points", "state": "done", "effect": "earned 129", "idempotencyKey": "points:7:earn",
                      "keyState": "SUCCESS", "attempts": 1, "repeatsStopped": 0, "undoneAt": "2026-03-01T14:20:02Z" } ] },
                { "eventId": "order:7:refunded", "topic": "order.refunded", "status": "RETRYING", "compensation": true,
                  "occurredAt": "2026-03-01T14:20:02Z", "effects": [
                    { "consumerId": "points", "state": "retrying", "attempts": 1, "repeatsStopped": 0,
                      "dueAt": "2026-03-01T14:21:15Z" } ] },
            ],
            "assets": [{ "asset": "Points of ada", "net": "-71", "balanced": false },
                       { "asset": "Coupon C-88", "net": "0", "balanced": true }],
        });
        let drawn = picture(&story, datetime!(2026-03-01 14:21 UTC));
        let drawn = console::strip_ansi_codes(&drawn);
        let expected = "\
ORDER 7
2 events · 3 effects · 4 attempts · 1 repeat stopped · 0 twice
There are more events: these are the newest 2.

14:02:11  order.paid  CONSUMED  order:7:paid
          points  spent 200                  points:7:commit SUCCESS  undone later, 1 repeat stopped, 2 tries
          and     earned 129                 points:7:earn SUCCESS    undone 14:20:02

14:20:02  order.refunded  RETRYING  compensation  order:7:refunded
          points  retrying, next try in 15s

What moved, and came back
          Points of ada           -71
          Coupon C-88               0  balanced";
        assert_eq!(drawn, expected);
    }
}
