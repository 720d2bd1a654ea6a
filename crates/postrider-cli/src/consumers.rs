//! `postrider consumers`: what waits for each consumer, what it did; pause, resume and rename.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::client::{Remote, escaped, given, rows};
use crate::{Context, End, output};

/// List, show, pause, resume and rename consumers; let keys go on behind a dead event
#[derive(Args)]
#[command(after_help = "Examples:
  postrider consumers list
  postrider consumers show points
  postrider consumers attempts points --from 2026-03-01T00:00:00Z
  postrider consumers pause points
  postrider consumers resume points
  postrider consumers rename points bonus --reason 'one name for all rewards'
  postrider consumers skip points 10492 --reason 'the account is closed'
  postrider consumers hold points 10492 --reason 'let us look first'

Rename before a program with the new name starts. Rename again if a producer's transaction was open: what is left moves.")]
pub(crate) struct Consumers {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Subcommand)]
enum Action {
    /// The consumers, by name, with what waits for each
    List,
    /// One consumer: what waits for it, and the rules for its deliveries
    Show {
        /// Its name
        consumer: String,
    },
    /// What a consumer did, the newest first
    Attempts {
        /// Its name
        consumer: String,
        /// Consumed at this time or later, as 2026-02-28T10:05:00Z
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Consumed before this time
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
        /// The most attempts to list
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Stop the deliveries to a consumer, on every instance, also after a restart
    Pause {
        /// Its name
        consumer: String,
    },
    /// Deliver to a consumer again
    Resume {
        /// Its name
        consumer: String,
    },
    /// Let the later events of a key go on without its dead ones
    Skip(Key),
    /// Stop a key behind its dead events again
    Hold(Key),
    /// Give a consumer another name: its subscriptions, deliveries, inbox and history move
    Rename {
        /// The old name
        from: String,
        /// The new name
        to: String,
        /// The reason, for the audit
        #[arg(long)]
        reason: Option<String>,
    },
}

/// A key behind a dead event.
#[derive(Args)]
struct Key {
    /// The name of the consumer
    consumer: String,
    /// The key
    key: String,
    /// The reason, for the audit
    #[arg(long)]
    reason: String,
}

const COLUMNS: [&str; 8] = ["consumerId", "via", "enabled", "paused", "lag", "oldestAgeSeconds", "retrying", "dead"];

const ATTEMPTS: [&str; 7] = ["consumedAt", "eventId", "topic", "attemptNo", "success", "errorCode", "errorMessage"];

impl Consumers {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let remote = self.remote;
        let path = |consumer: &str, verb: &str| format!("/consumers/{}/{verb}", escaped(consumer));
        match self.action {
            Action::List => {
                let listed = remote.get("/consumers").await?;
                output::list(context.output, &rows(&listed, "consumers"), &COLUMNS);
            }
            Action::Show { consumer } => {
                output::one(context.output, &remote.get(&format!("/consumers/{}", escaped(&consumer))).await?);
            }
            Action::Attempts { consumer, from, to, limit } => {
                let filter = given([("from", &from), ("to", &to)]);
                let attempts = remote.pages(&path(&consumer, "attempts"), "attempts", &filter, limit).await?;
                output::list(context.output, &attempts, &ATTEMPTS);
            }
            Action::Pause { consumer } => {
                remote.post(&path(&consumer, "pause"), &json!({})).await?;
            }
            Action::Resume { consumer } => {
                remote.post(&path(&consumer, "resume"), &json!({})).await?;
            }
            Action::Skip(Key { consumer, key, reason }) => {
                let body = json!({ "key": key, "reason": reason });
                output::one(context.output, &remote.post(&path(&consumer, "keys/skip"), &body).await?);
            }
            Action::Hold(Key { consumer, key, reason }) => {
                let body = json!({ "key": key, "reason": reason });
                output::one(context.output, &remote.post(&path(&consumer, "keys/hold"), &body).await?);
            }
            Action::Rename { from, to, reason } => {
                let mut body = json!({ "to": to });
                if let Some(reason) = reason {
                    body["reason"] = reason.into();
                }
                output::one(context.output, &remote.post(&path(&from, "rename"), &body).await?);
            }
        }
        Ok(())
    }
}
