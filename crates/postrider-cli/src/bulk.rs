//! Filters, lists and bulk redrives of events.

use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use crate::client::{Remote, escaped, given};
use crate::{Context, End, output, print_data, print_note};

/// The poll interval of an operation's progress.
const LOOK: Duration = Duration::from_millis(300);
/// How long to wait for an instance that works on an operation.
const PATIENCE: Duration = Duration::from_secs(30);
/// The progress bar.
const BAR: &str = "[{bar:30}] {pos}/{len} {msg}";
/// The columns of a list of events.
pub(crate) const COLUMNS: [&str; 7] =
    ["eventId", "topic", "status", "consumedConsumers", "expectedConsumers", "createdAt", "lastError"];

/// A filter for events; an empty one matches all.
#[derive(Args, Default)]
pub(crate) struct EventFilter {
    /// Events of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Events with this status: PENDING, SENT, CONSUMED, PARTIAL, FAILED, RETRYING or EXPIRED
    #[arg(long)]
    status: Option<String>,
    /// Events with a delivery in this status: NEW, PROCESSING, FAILED or DEAD
    #[arg(long, value_name = "STATUS")]
    delivery_status: Option<String>,
    /// Written by this service
    #[arg(long)]
    service: Option<String>,
    /// Of this trace
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    /// Of aggregates of this type
    #[arg(long, value_name = "TYPE")]
    aggregate_type: Option<String>,
    /// Of the aggregate with this id
    #[arg(long, value_name = "ID", requires = "aggregate_type")]
    aggregate_id: Option<String>,
    /// With this key
    #[arg(long)]
    key: Option<String>,
    /// Events that this consumer gets
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Of this tenant
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
    /// Stored at this time or later, as 2026-02-28T10:05:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Stored before this time
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

impl EventFilter {
    /// Only events with a DEAD delivery.
    pub(crate) fn dead(mut self) -> Self {
        self.delivery_status = Some("DEAD".into());
        self
    }

    /// The filter as the API takes it.
    pub(crate) fn filter(&self) -> Map<String, Value> {
        given([
            ("topic", &self.topic),
            ("status", &self.status),
            ("deliveryStatus", &self.delivery_status),
            ("service", &self.service),
            ("traceId", &self.trace),
            ("aggregateType", &self.aggregate_type),
            ("aggregateId", &self.aggregate_id),
            ("key", &self.key),
            ("consumerId", &self.consumer),
            ("tenantId", &self.tenant),
            ("from", &self.from),
            ("to", &self.to),
        ])
    }

    /// The consumer of the filter.
    pub(crate) fn consumer(&self) -> Option<&str> {
        self.consumer.as_deref()
    }

    /// Whether it filters by more than the consumer.
    pub(crate) fn has_other_filters(&self) -> bool {
        self.filter().keys().any(|name| name != "consumerId")
    }

    /// Prints up to `limit` matching events, newest first.
    pub(crate) async fn list(&self, remote: &Remote, context: &Context, limit: usize) -> Result<(), End> {
        let events = remote.pages("/events", "events", &self.filter(), limit).await?;
        output::list(context.output, &events, &COLUMNS);
        Ok(())
    }
}

/// The options of a bulk redrive.
#[derive(Args)]
pub(crate) struct RedriveOptions {
    /// Only say what it would do: how many events match, and what the rules say about them
    #[arg(long)]
    dry_run: bool,
    /// The most events per second
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<u32>,
    /// The sizes of the first steps; one more step takes the rest. After each step it waits for the first attempts, and stops by
    /// itself if too many failed again
    #[arg(long, value_name = "1,10,100", value_delimiter = ',')]
    ramp: Vec<u32>,
    /// With a ramp: stop if more than this share of a step's results are failures [default: 20%]
    #[arg(long, value_name = "PERCENT", requires = "ramp", value_parser = percent)]
    stop_above: Option<u32>,
    /// With a ramp: how long to wait for the first attempts of a step [default: 30s]
    #[arg(long, value_name = "TIME", requires = "ramp", value_parser = seconds)]
    gate: Option<u32>,
    /// Begin with the oldest event instead of the newest
    #[arg(long)]
    oldest_first: bool,
    /// Only the parts of consumers that failed, and not of those that have no result yet
    #[arg(long)]
    only_failed: bool,
    /// Only events of this failure group, as `postrider failures -o json` names it; may be repeated
    #[arg(long, value_name = "GROUP_ID")]
    group: Vec<String>,
    /// The reason, for the audit
    #[arg(long, default_value = "from the command line")]
    reason: String,
    /// Do not wait until it ends
    #[arg(long)]
    no_wait: bool,
}

/// `20%`, or `20`.
fn percent(text: &str) -> Result<u32, String> {
    let number = text.trim_end_matches('%').parse::<u32>().ok().filter(|percent| *percent <= 100);
    number.ok_or_else(|| "must be 0% to 100%".into())
}

/// `30s`, `2m`, or `30`.
fn seconds(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.trim_end_matches('s'), 1),
    };
    let seconds = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit)).filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| "must be a time such as 30s or 2m".into())
}

impl RedriveOptions {
    /// The reason.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether it only says what it would do.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Whether it needs an operation of the server: single redrives know no steps, groups or order.
    pub(crate) fn is_planned(&self) -> bool {
        !self.ramp.is_empty() || !self.group.is_empty() || self.oldest_first || self.only_failed || self.rate.is_some()
    }

    /// Whether it names events by their groups.
    pub(crate) fn has_groups(&self) -> bool {
        !self.group.is_empty()
    }

    /// Redrives all matching events, and shows the progress.
    pub(crate) async fn redrive(self, which: &EventFilter, remote: &Remote, context: &Context) -> Result<(), End> {
        self.redrive_these(which, &[], remote, context).await
    }

    /// Redrives the chosen events that match, or all that match if none is chosen, and shows the progress.
    pub(crate) async fn redrive_these(
        self,
        which: &EventFilter,
        event_ids: &[String],
        remote: &Remote,
        context: &Context,
    ) -> Result<(), End> {
        let answer = remote.post("/operations", &self.wanted(which, event_ids)).await?;
        match answer["operationId"].as_str() {
            Some(id) if !self.no_wait => follow(id, remote, context).await,
            Some(_) => {
                output::one(context.output, &answer);
                Ok(())
            }
            None => {
                preview(&answer, context);
                Ok(())
            }
        }
    }

    /// The request as the API takes it.
    fn wanted(&self, which: &EventFilter, event_ids: &[String]) -> Value {
        let mut wanted = json!({
            "kind": "redrive", "filter": which.filter(), "dryRun": self.dry_run, "reason": self.reason,
        });
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                wanted[name] = value;
            }
        };
        set("consumerId", which.consumer.as_deref().map(Into::into));
        set("eventIds", (!event_ids.is_empty()).then(|| event_ids.into()));
        set("failureGroups", (!self.group.is_empty()).then(|| self.group.clone().into()));
        set("ratePerSecond", self.rate.map(Into::into));
        set("ramp", (!self.ramp.is_empty()).then(|| self.ramp.clone().into()));
        set("stopAbovePercent", self.stop_above.map(Into::into));
        set("gateSeconds", self.gate.map(Into::into));
        set("oldestFirst", self.oldest_first.then(|| true.into()));
        set("consumers", self.only_failed.then(|| "failed".into()));
        wanted
    }
}

/// Prints what an operation would do.
fn preview(answer: &Value, context: &Context) {
    if context.output != output::Format::Table {
        output::one(context.output, answer);
        return;
    }
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    let about = if answer["exact"] == false { "about " } else { "" };
    print_data(format!("{about}{} events match", count(&answer["matching"])));
    if answer["exact"] == false {
        print_data(format!("the newest {} of them:", count(&answer["lookedAt"])));
    }
    let shares = answer["split"].as_array().cloned().unwrap_or_default();
    let rows: Vec<Value> = shares
        .iter()
        .map(|share| {
            let samples = share["samples"].as_array().cloned().unwrap_or_default();
            let samples: Vec<String> = samples.iter().map(output::shown).collect();
            json!({ "count": share["count"], "rule": share["rule"], "samples": samples.join(" ") })
        })
        .collect();
    output::list(context.output, &rows, &["count", "rule", "samples"]);
    for one in answer["alreadySucceeded"].as_array().into_iter().flatten() {
        let (consumer, count) = (output::shown(&one["consumerId"]), count(&one["count"]));
        print_data(format!("{consumer} has succeeded with {count} of them before, and is left out"));
    }
    let sizes: Vec<String> = steps(answer).iter().map(|step| step["size"].to_string()).collect();
    if !sizes.is_empty() {
        print_data(format!("steps: {}", sizes.join(", ")));
    }
}

fn steps(operation: &Value) -> Vec<Value> {
    operation["steps"].as_array().cloned().unwrap_or_default()
}

/// The figures of an operation in a line.
pub(crate) fn figures(operation: &Value) -> String {
    let number = |field: &str| operation[field].as_u64().unwrap_or_default();
    format!(
        "{} redriven, {} refused, {} needed nothing: {} delivered, {} failed again, {} without a result yet",
        number("done"),
        number("failed"),
        number("skipped"),
        number("delivered"),
        number("failedAgain"),
        number("open")
    )
}

/// The steps of a ramp, a line each.
pub(crate) fn step_lines(operation: &Value) -> Vec<String> {
    let line = |(at, step): (usize, &Value)| {
        let number = |field: &str| step[field].as_u64().unwrap_or_default();
        format!(
            "step {} of {}: {}, {} of {} redriven, {} delivered, {} failed again",
            at + 1,
            steps(operation).len(),
            step["state"].as_str().unwrap_or("?"),
            number("done"),
            number("size"),
            number("delivered"),
            number("failedAgain")
        )
    };
    steps(operation).iter().enumerate().map(line).collect()
}

/// Why an operation has stopped by itself, and what to do.
pub(crate) fn stop(operation: &Value) -> Option<String> {
    let why = operation["stoppedBecause"].as_str()?;
    let limit = operation["stopAbovePercent"].as_u64().unwrap_or_default();
    let id = output::shown(&operation["operationId"]);
    Some(format!(
        "stopped itself: {why}; the limit is {limit} %. Repair the consumer, then `postrider operations resume {id}`"
    ))
}

/// An operation as it is printed: in a table without what [`figures`], [`step_lines`] and [`stop`] say.
pub(crate) fn brief(operation: &Value, context: &Context) -> Value {
    let mut brief = operation.clone();
    if let (output::Format::Table, Some(fields)) = (context.output, brief.as_object_mut()) {
        for name in ["steps", "done", "delivered", "failedAgain", "open", "failed", "skipped", "stoppedBecause"] {
            fields.remove(name);
        }
    }
    brief
}

/// Shows the progress of an operation until it ends or is paused.
pub(crate) async fn follow(id: &str, remote: &Remote, context: &Context) -> Result<(), End> {
    // Drawn on a terminal only; in a log it would be noise.
    let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template(BAR).unwrap_or(ProgressStyle::default_bar()));
    let mut touched = (Instant::now(), Value::Null);
    loop {
        let operation = remote.get(&format!("/operations/{}", escaped(id))).await?;
        let number = |field: &str| operation[field].as_u64().unwrap_or_default();
        let processed = number("done") + number("failed") + number("skipped");
        // Events that were stored after the count may make it more than the total.
        bar.set_length(number("total").max(processed));
        bar.set_position(processed);
        let step = steps(&operation).iter().position(|step| step["state"] == "running");
        let step = step.map(|at| format!("step {}, ", at + 1)).unwrap_or_default();
        bar.set_message(format!("{step}{} delivered, {} failed again", number("delivered"), number("failedAgain")));
        if operation["state"] == "RUNNING" {
            // Whoever works on it touches it, also while it waits for results.
            if operation["updatedAt"] != touched.1 {
                touched = (Instant::now(), operation["updatedAt"].clone());
            } else if touched.0.elapsed() > PATIENCE {
                let detail = "no instance works on it: start a `postrider serve` with a relay, and it continues";
                return Err(End::Wrong(format!("operation {id}: {detail}")));
            }
            tokio::time::sleep(LOOK).await;
            continue;
        }
        bar.abandon();
        step_lines(&operation).iter().for_each(print_note);
        print_note(figures(&operation));
        if let Some(stop) = stop(&operation) {
            print_note(stop);
        }
        output::one(context.output, &brief(&operation, context));
        return match operation["state"].as_str() {
            Some("DONE") if number("failed") == 0 && number("failedAgain") == 0 => Ok(()),
            _ => Err(End::Partly),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_times_are_read_as_people_write_them() {
        assert_eq!((percent("20%"), percent("5")), (Ok(20), Ok(5)));
        assert_eq!((seconds("30s"), seconds("2m"), seconds("45")), (Ok(30), Ok(120), Ok(45)));
        assert!(
            percent("101%").is_err() && percent("few").is_err() && seconds("0s").is_err() && seconds("1h").is_err()
        );
    }
}
