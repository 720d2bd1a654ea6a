//! Filters, lists and bulk redrives of events.

use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use crate::client::{Remote, escaped, given};
use crate::{Context, End, output, print_note};

/// The poll interval of an operation's progress.
const LOOK: Duration = Duration::from_millis(300);
/// How long to wait for an instance that works on an operation.
const PATIENCE: Duration = Duration::from_secs(30);
/// The progress bar.
const BAR: &str = "[{bar:30}] {pos}/{len}";
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
    /// Only count what matches
    #[arg(long)]
    dry_run: bool,
    /// The most events per second
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<u32>,
    /// The reason, for the audit
    #[arg(long, default_value = "from the command line")]
    reason: String,
    /// Do not wait until it ends
    #[arg(long)]
    no_wait: bool,
}

impl RedriveOptions {
    /// The reason.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether it only counts matches.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Redrives all matching events, and shows the progress.
    pub(crate) async fn redrive(self, which: &EventFilter, remote: &Remote, context: &Context) -> Result<(), End> {
        let mut wanted = json!({
            "kind": "redrive", "filter": which.filter(), "dryRun": self.dry_run, "reason": self.reason,
        });
        if let Some(consumer) = &which.consumer {
            wanted["consumerId"] = consumer.as_str().into();
        }
        if let Some(rate) = self.rate {
            wanted["ratePerSecond"] = rate.into();
        }
        let answer = remote.post("/operations", &wanted).await?;
        match answer["operationId"].as_str() {
            Some(id) if !self.no_wait => follow(id, remote, context).await,
            _ => {
                output::one(context.output, &answer);
                Ok(())
            }
        }
    }
}

/// Shows the progress of an operation until it ends or is paused.
async fn follow(id: &str, remote: &Remote, context: &Context) -> Result<(), End> {
    // Drawn on a terminal only; in a log it would be noise.
    let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template(BAR).unwrap_or(ProgressStyle::default_bar()));
    let mut touched = Instant::now();
    loop {
        let operation = remote.get(&format!("/operations/{}", escaped(id))).await?;
        let number = |field: &str| operation[field].as_u64().unwrap_or_default();
        let (done, failed, skipped) = (number("done"), number("failed"), number("skipped"));
        let processed = done + failed + skipped;
        // Events that were stored after the count may make it more than the total.
        bar.set_length(number("total").max(processed));
        bar.set_position(processed);
        if operation["state"] == "RUNNING" {
            if operation["owner"].is_string() {
                touched = Instant::now();
            } else if touched.elapsed() > PATIENCE {
                let detail = "no instance works on it: start a `postrider serve` with a relay, and it continues";
                return Err(End::Wrong(format!("operation {id}: {detail}")));
            }
            tokio::time::sleep(LOOK).await;
            continue;
        }
        bar.abandon();
        print_note(format!("{done} redriven, {failed} refused, {skipped} needed nothing"));
        output::one(context.output, &operation);
        return match operation["state"].as_str() {
            Some("DONE") if failed == 0 => Ok(()),
            _ => Err(End::Partly),
        };
    }
}
