//! `postrider operations`: list, show, pause, resume and cancel bulk operations.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::client::{Remote, escaped, rows};
use crate::{Context, End, output};

/// List, show, pause, resume and cancel bulk operations
#[derive(Args)]
#[command(after_help = "Examples:
  postrider operations list
  postrider operations show OPERATION_ID
  postrider operations pause OPERATION_ID
  postrider operations resume OPERATION_ID
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
        limit: u32,
    },
    /// The state of an operation
    Show {
        /// Its id
        operation_id: String,
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
    },
    /// Cancel it; what is redriven stays redriven
    Cancel {
        /// Its id
        operation_id: String,
    },
}

const COLUMNS: [&str; 9] =
    ["operationId", "state", "total", "done", "failed", "skipped", "requestedBy", "createdAt", "reason"];

impl Operations {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let remote = self.remote;
        let change =
            async |id: &str, verb: &str| remote.post(&format!("/operations/{}/{verb}", escaped(id)), &json!({})).await;
        let operation = match self.action {
            Action::List { limit } => {
                let listed = remote.get(&format!("/operations?limit={limit}")).await?;
                output::list(context.output, &rows(&listed, "operations"), &COLUMNS);
                return Ok(());
            }
            Action::Show { operation_id } => remote.get(&format!("/operations/{}", escaped(&operation_id))).await?,
            Action::Pause { operation_id } => change(&operation_id, "pause").await?,
            Action::Resume { operation_id } => change(&operation_id, "resume").await?,
            Action::Cancel { operation_id } => change(&operation_id, "cancel").await?,
        };
        output::one(context.output, &operation);
        Ok(())
    }
}
