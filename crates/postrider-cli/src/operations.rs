//! `postrider operations`: bulk work, seen and steered.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::client::{Remote, escaped, rows};
use crate::{Context, End, output};

/// See and steer bulk operations
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
        /// So many at most
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// How an operation stands
    Show {
        /// Its id
        operation_id: String,
    },
    /// Stop it for now
    Pause {
        /// Its id
        operation_id: String,
    },
    /// Go on with it
    Resume {
        /// Its id
        operation_id: String,
    },
    /// End it where it is
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
        let steer =
            async |id: &str, verb: &str| remote.post(&format!("/operations/{}/{verb}", escaped(id)), &json!({})).await;
        let operation = match self.action {
            Action::List { limit } => {
                let listed = remote.get(&format!("/operations?limit={limit}")).await?;
                output::list(context.output, &rows(&listed, "operations"), &COLUMNS);
                return Ok(());
            }
            Action::Show { operation_id } => remote.get(&format!("/operations/{}", escaped(&operation_id))).await?,
            Action::Pause { operation_id } => steer(&operation_id, "pause").await?,
            Action::Resume { operation_id } => steer(&operation_id, "resume").await?,
            Action::Cancel { operation_id } => steer(&operation_id, "cancel").await?,
        };
        output::one(context.output, &operation);
        Ok(())
    }
}
