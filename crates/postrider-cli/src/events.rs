//! `postrider events`: what became of events.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::client::{Remote, escaped, rows};
use crate::output::Format;
use crate::{Context, End, output, say};

/// See what became of events
#[derive(Args)]
#[command(after_help = "Examples:
  postrider events show EVENT_ID
  postrider events show EVENT_ID -o json")]
pub(crate) struct Events {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// One event, with every attempt and everything that still waits
    Show {
        /// Its id
        event_id: String,
        #[command(flatten)]
        remote: Remote,
    },
}

impl Events {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let Action::Show { event_id, remote } = self.action;
        let mut event = remote.get(&format!("/events/{}", escaped(&event_id))).await?;
        if context.output != Format::Table {
            output::one(context.output, &event);
            return Ok(());
        }
        let (attempts, waiting) = (rows(&event, "consumptions"), rows(&event, "deliveries"));
        if let Some(fields) = event.as_object_mut() {
            fields.retain(|name, value| {
                !matches!(name.as_str(), "consumptions" | "deliveries" | "masked") && !is_empty(value)
            });
        }
        output::one(Format::Table, &event);
        for (heading, rows, columns) in [
            ("attempts", attempts, &["consumerId", "attemptNo", "success", "createdAt", "errorMessage"][..]),
            ("waiting", waiting, &["lane", "status", "attempts", "dueAt", "lastError"][..]),
        ] {
            if !rows.is_empty() {
                say(format!("\n{heading}"));
                output::list(Format::Table, &rows, columns);
            }
        }
        Ok(())
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}
