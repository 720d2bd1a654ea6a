//! `postrider consumers`: what waits for each consumer; pause, resume and rename.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::client::{Remote, escaped, rows};
use crate::{Context, End, output};

/// List, pause, resume and rename consumers
#[derive(Args)]
#[command(after_help = "Examples:
  postrider consumers list
  postrider consumers pause points
  postrider consumers resume points
  postrider consumers rename points bonus --reason 'one name for all rewards'

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

const COLUMNS: [&str; 8] = ["consumerId", "via", "enabled", "paused", "lag", "oldestAgeSeconds", "retrying", "dead"];

impl Consumers {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let remote = self.remote;
        let path = |consumer: &str, verb: &str| format!("/consumers/{}/{verb}", escaped(consumer));
        match self.action {
            Action::List => {
                let listed = remote.get("/consumers").await?;
                output::list(context.output, &rows(&listed, "consumers"), &COLUMNS);
            }
            Action::Pause { consumer } => {
                remote.post(&path(&consumer, "pause"), &json!({})).await?;
            }
            Action::Resume { consumer } => {
                remote.post(&path(&consumer, "resume"), &json!({})).await?;
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
