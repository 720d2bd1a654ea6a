//! `postrider subscriptions`: which consumer gets which topic.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

use crate::client::{Remote, escaped, rows};
use crate::{Context, End, output};

/// List and change which consumer gets which topic
#[derive(Args)]
#[command(after_help = "Examples:
  postrider subscriptions list
  postrider subscriptions set order.paid points
  postrider subscriptions set order.paid mailer --endpoint https://mail.example.org/hook
  postrider subscriptions set order.paid points --disabled --description 'until the wallet is mended'
  postrider subscriptions remove order.paid points")]
pub(crate) struct Subscriptions {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Subcommand)]
enum Action {
    /// The subscriptions, by topic
    List {
        /// Of this topic only
        topic: Option<String>,
    },
    /// Subscribe a consumer, or change how
    Set {
        /// The topic; `*` for all
        topic: String,
        /// The consumer
        consumer: String,
        /// How it gets its events: local, pull, webhook, rabbitmq or external
        #[arg(long)]
        via: Option<String>,
        /// Where a webhook goes
        #[arg(long, value_name = "URL")]
        endpoint: Option<String>,
        /// Deliver nothing for now
        #[arg(long)]
        disabled: bool,
        /// What it is for
        #[arg(long)]
        description: Option<String>,
        /// The position in lists
        #[arg(long, default_value_t = 0)]
        sort_order: i32,
    },
    /// Remove a subscription for good
    Remove {
        /// The topic
        topic: String,
        /// The consumer
        consumer: String,
    },
}

const COLUMNS: [&str; 6] = ["topic", "consumerId", "via", "enabled", "endpoint", "description"];

impl Subscriptions {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let remote = self.remote;
        let path = |topic: &str, consumer: &str| format!("/subscriptions/{}/{}", escaped(topic), escaped(consumer));
        match self.action {
            Action::List { topic } => {
                let query = topic.map(|topic| format!("?topic={}", escaped(&topic))).unwrap_or_default();
                let listed = remote.get(&format!("/subscriptions{query}")).await?;
                output::list(context.output, &rows(&listed, "subscriptions"), &COLUMNS);
            }
            Action::Set { topic, consumer, via, endpoint, disabled, description, sort_order } => {
                let mut body = json!({ "enabled": !disabled, "sortOrder": sort_order });
                for (field, value) in [("via", via), ("endpoint", endpoint), ("description", description)] {
                    if let Some(value) = value {
                        body[field] = value.into();
                    }
                }
                let stored = remote.ask(Method::PUT, &path(&topic, &consumer), Some(&body)).await?;
                output::one(context.output, &stored);
            }
            Action::Remove { topic, consumer } => {
                remote.ask(Method::DELETE, &path(&topic, &consumer), None).await?;
            }
        }
        Ok(())
    }
}
