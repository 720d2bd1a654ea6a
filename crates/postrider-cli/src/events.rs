//! `postrider events`: list, show, trace, tail, redrive, expire and discard events.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::bulk::{COLUMNS, EventFilter, RedriveOptions};
use crate::client::{Remote, escaped, rows};
use crate::output::Format;
use crate::tail::Tail;
use crate::{Context, End, output, print_data, print_note};

/// List, show, trace, follow, redrive, expire and discard events
#[derive(Args)]
#[command(after_help = "Examples:
  postrider events list --topic order.paid --status FAILED
  postrider events show EVENT_ID
  postrider events trace EVENT_ID
  postrider events tail --topic order.paid
  postrider events redrive EVENT_ID --consumer points
  postrider events redrive EVENT_ID OTHER_ID --ramp 1,10 --dry-run
  postrider events redrive --status PARTIAL --topic order.paid --dry-run
  postrider events expire EVENT_ID --reason 'published by mistake'
  postrider events discard EVENT_ID --consumer points --reason 'the order was a test'")]
pub(crate) struct Events {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Subcommand)]
enum Action {
    /// Events, the newest first
    List {
        #[command(flatten)]
        which: EventFilter,
        /// The most events to list
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// One event, with all attempts and waiting deliveries
    Show {
        /// Its id
        event_id: String,
    },
    /// All events that one request caused, as a tree
    Trace {
        /// The id of the trace, or of an event of it
        id: String,
    },
    Tail(Tail),
    /// Redrive events: those that are named, or all that match
    Redrive {
        /// Their ids
        event_ids: Vec<String>,
        #[command(flatten)]
        which: EventFilter,
        #[command(flatten)]
        how: RedriveOptions,
    },
    /// Expire events: nothing of them is delivered any more
    Expire {
        /// Their ids
        #[arg(required = true)]
        event_ids: Vec<String>,
        /// The reason, for the audit
        #[arg(long)]
        reason: Option<String>,
    },
    /// Give up the deliveries of events to one consumer; a redrive delivers them again
    Discard {
        /// Their ids
        #[arg(required = true)]
        event_ids: Vec<String>,
        /// Whose deliveries
        #[arg(long)]
        consumer: String,
        /// The reason, for the history of the events and the audit
        #[arg(long)]
        reason: String,
    },
}

impl Events {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let remote = &self.remote;
        match self.action {
            Action::List { which, limit } => which.list(remote, context, limit).await,
            Action::Show { event_id } => show(&event_id, remote, context).await,
            Action::Trace { id } => trace(&id, remote, context).await,
            Action::Tail(tail) => tail.run(remote, context).await,
            Action::Redrive { event_ids, which, how } if event_ids.is_empty() => {
                if which.filter().is_empty() && !how.has_groups() {
                    // Without a filter it would redrive every event, most likely by mistake.
                    return Err(End::Wrong("name events or give a filter: `postrider events redrive --help`".into()));
                }
                how.redrive(&which, remote, context).await
            }
            Action::Redrive { event_ids, which, how } if how.is_dry_run() || how.is_planned() => {
                how.redrive_these(&which, &event_ids, remote, context).await
            }
            Action::Redrive { event_ids, which, how } => {
                let mut body = json!({ "reason": how.reason() });
                if let Some(consumer) = which.consumer() {
                    body["consumerId"] = consumer.into();
                }
                if which.has_other_filters() {
                    return Err(End::Wrong("filters cannot be combined with event ids, but for --consumer".into()));
                }
                each(&event_ids, "redrive", &body, remote, context).await
            }
            Action::Expire { event_ids, reason } => {
                let body = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
                each(&event_ids, "expire", &body, remote, context).await
            }
            Action::Discard { event_ids, consumer, reason } => {
                let body = json!({ "consumerId": consumer, "reason": reason });
                each(&event_ids, "discard", &body, remote, context).await
            }
        }
    }
}

/// Does the same to each event. A refused one does not stop the others.
async fn each(ids: &[String], verb: &str, body: &Value, remote: &Remote, context: &Context) -> Result<(), End> {
    let mut done = Vec::new();
    for id in ids {
        match remote.post(&format!("/events/{}/{verb}", escaped(id)), body).await {
            Ok(event) => done.push(event),
            Err(end) if ids.len() == 1 => return Err(end),
            Err(End::NotFound(why) | End::NotAllowed(why)) => print_note(format!("{id}: {why}")),
            Err(end) => return Err(end),
        }
    }
    output::list(context.output, &done, &COLUMNS);
    if done.len() == ids.len() { Ok(()) } else { Err(End::Partly) }
}

async fn show(event_id: &str, remote: &Remote, context: &Context) -> Result<(), End> {
    let mut event = remote.get(&format!("/events/{}", escaped(event_id))).await?;
    if context.output != Format::Table {
        output::one(context.output, &event);
        return Ok(());
    }
    const LISTS: [(&str, &str, &[&str]); 4] = [
        ("attempts", "consumptions", &["consumerId", "attemptNo", "success", "createdAt", "errorMessage"]),
        ("waiting", "deliveries", &["lane", "status", "attempts", "dueAt", "lastError"]),
        ("caused by", "parents", &["eventId", "topic", "status", "createdAt"]),
        ("caused", "children", &["eventId", "topic", "status", "createdAt"]),
    ];
    let lists = LISTS.map(|(heading, field, columns)| (heading, rows(&event, field), columns));
    if let Some(fields) = event.as_object_mut() {
        let is_list = |name: &str| LISTS.iter().any(|(_, field, _)| *field == name);
        fields.retain(|name, value| name != "masked" && !is_list(name) && !is_empty(value));
    }
    output::one(Format::Table, &event);
    for (heading, rows, columns) in lists {
        if !rows.is_empty() {
            print_data(format!("\n{heading}"));
            output::list(Format::Table, &rows, columns);
        }
    }
    Ok(())
}

/// Prints a trace, by its id or by the id of one of its events.
async fn trace(id: &str, remote: &Remote, context: &Context) -> Result<(), End> {
    let of_trace = async |id: &str| remote.get(&format!("/traces/{}", escaped(id))).await;
    let trace = match of_trace(id).await {
        Err(End::NotFound(why)) => {
            let event = remote.get(&format!("/events/{}", escaped(id))).await?;
            of_trace(event["traceId"].as_str().ok_or(End::NotFound(why))?).await?
        }
        answer => answer?,
    };
    if context.output != Format::Table {
        output::one(context.output, &trace);
        return Ok(());
    }
    print_data(format!("trace {}", output::shown(&trace["traceId"])));
    let roots = rows(&trace, "roots");
    for (n, root) in roots.iter().enumerate() {
        branch(root, "", n + 1 == roots.len());
    }
    Ok(())
}

/// Prints one line per event, below its cause.
fn branch(node: &Value, before: &str, is_last: bool) {
    let cell = |field: &str| output::shown(&node[field]);
    let consumed = format!("{}/{} consumed", cell("consumedConsumers"), cell("expectedConsumers"));
    let (joint, below) = if is_last { ("└─", "  ") } else { ("├─", "│ ") };
    let error = node["lastError"].as_str().map(|_| format!(": {}", cell("lastError"))).unwrap_or_default();
    print_data(format!(
        "{before}{joint} {} {} {} {consumed} {}{error}",
        cell("topic"),
        cell("status"),
        output::cell("occurredAt", &node["occurredAt"], time::OffsetDateTime::now_utc()),
        cell("eventId")
    ));
    let children = rows(node, "children");
    for (n, child) in children.iter().enumerate() {
        branch(child, &format!("{before}{below}"), n + 1 == children.len());
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}
