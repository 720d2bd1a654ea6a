//! `postrider operations`: list, show, pause, resume and cancel bulk operations.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::bulk::{brief, figures, follow, step_lines, stop};
use crate::client::{Remote, escaped, given};
use crate::output::Format;
use crate::{Context, End, output, print_data};

/// List, show, pause, resume and cancel bulk operations
#[derive(Args)]
#[command(after_help = "Examples:
  postrider operations list
  postrider operations show OPERATION_ID
  postrider operations show OPERATION_ID --items failedAgain
  postrider operations pause OPERATION_ID
  postrider operations resume OPERATION_ID --wait
  postrider operations cancel OPERATION_ID")]
pub(crate) struct Operations {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Subcommand)]
enum Action {
    /// The newest operations
    List {
        /// The most operations to list
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// The state of an operation: its steps, what came of its events, and why it stopped
    Show {
        /// Its id
        operation_id: String,
        /// List its events with this outcome: delivered, failedAgain, open, skipped, refused or planned
        #[arg(long, value_name = "OUTCOME")]
        items: Option<String>,
        /// The most events to list
        #[arg(long, default_value_t = 50, requires = "items")]
        limit: usize,
    },
    /// Pause it
    Pause {
        /// Its id
        operation_id: String,
    },
    /// Resume it
    Resume {
        /// Its id
        operation_id: String,
        /// Wait until it ends, and show its progress
        #[arg(long)]
        wait: bool,
    },
    /// Cancel it; what is redriven stays redriven
    Cancel {
        /// Its id
        operation_id: String,
    },
}

const COLUMNS: [&str; 12] = [
    "number",
    "operationId",
    "state",
    "total",
    "done",
    "delivered",
    "failedAgain",
    "open",
    "requestedBy",
    "createdAt",
    "reason",
    "stoppedBecause",
];
const ITEM_COLUMNS: [&str; 4] = ["eventId", "outcome", "rule", "step"];

impl Operations {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let remote = self.remote;
        let change =
            async |id: &str, verb: &str| remote.post(&format!("/operations/{}/{verb}", escaped(id)), &json!({})).await;
        let operation = match self.action {
            Action::List { limit } => {
                let listed = remote.pages("/operations", "operations", &Map::new(), limit).await?;
                output::list(context.output, &listed, &COLUMNS);
                return Ok(());
            }
            Action::Show { operation_id, items: Some(outcome), limit } => {
                let path = format!("/operations/{}/items", escaped(&operation_id));
                let wanted = given([("outcome", &Some(outcome))]);
                output::list(context.output, &remote.pages(&path, "items", &wanted, limit).await?, &ITEM_COLUMNS);
                return Ok(());
            }
            Action::Show { operation_id, items: None, .. } => {
                remote.get(&format!("/operations/{}", escaped(&operation_id))).await?
            }
            Action::Pause { operation_id } => change(&operation_id, "pause").await?,
            Action::Resume { operation_id, wait: true } => {
                change(&operation_id, "resume").await?;
                return follow(&operation_id, &remote, context).await;
            }
            Action::Resume { operation_id, wait: false } => change(&operation_id, "resume").await?,
            Action::Cancel { operation_id } => change(&operation_id, "cancel").await?,
        };
        show(&operation, context);
        Ok(())
    }
}

/// Prints an operation; in a table the steps and figures as sentences.
fn show(operation: &Value, context: &Context) {
    output::one(context.output, &brief(operation, context));
    if context.output == Format::Table {
        step_lines(operation).iter().for_each(print_data);
        print_data(figures(operation));
        stop(operation).iter().for_each(print_data);
    }
}
