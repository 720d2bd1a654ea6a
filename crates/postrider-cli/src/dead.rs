//! `postrider dead`: list and redrive dead letters.

use clap::{Args, Subcommand};

use crate::bulk::{EventFilter, RedriveOptions};
use crate::client::Remote;
use crate::{Context, End};

/// List and redrive dead letters: events that a consumer has given up
#[derive(Args)]
#[command(after_help = "Examples:
  postrider dead list
  postrider dead list --consumer points --topic order.paid
  postrider dead redrive --consumer points --dry-run
  postrider dead redrive --consumer points --rate 50 --reason 'the wallet is mended'
  postrider dead redrive --consumer points --ramp 1,10,100 --stop-above 20% --gate 30s")]
pub(crate) struct Dead {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Subcommand)]
enum Action {
    /// Events with a dead letter, the newest first
    List {
        #[command(flatten)]
        which: EventFilter,
        /// The most events to list
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Redrive them
    Redrive {
        #[command(flatten)]
        which: EventFilter,
        #[command(flatten)]
        how: RedriveOptions,
    },
}

impl Dead {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        match self.action {
            Action::List { which, limit } => which.dead().list(&self.remote, context, limit).await,
            // A group has events that are still retried too.
            Action::Redrive { which, how } if how.has_groups() => how.redrive(&which, &self.remote, context).await,
            Action::Redrive { which, how } => how.redrive(&which.dead(), &self.remote, context).await,
        }
    }
}
