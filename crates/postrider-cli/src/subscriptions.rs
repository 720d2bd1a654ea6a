//! `postrider subscriptions`: which consumer gets which topic.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Remote, escaped, rows};
use crate::{Context, End, output};

/// List and change which consumer gets which topic
#[derive(Args)]
#[command(after_help = "Examples:
  postrider subscriptions list
  postrider subscriptions set order.paid points
  postrider subscriptions set order.paid mailer --endpoint https://mail.example.org/hook
  postrider subscriptions set order.paid points --disabled --reason 'until the wallet is mended'
  postrider subscriptions remove order.paid points --waiting deliver")]
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
    Set(Box<Set>),
    /// Remove a subscription for good
    Remove(Remove),
}

/// Subscribe a consumer, or change how
///
/// What is left out has its default, not what it had before. It counts for events that are written from now on; what waits is
/// still delivered, also with --disabled.
#[derive(Args)]
#[command(after_help = "Examples:
  postrider subscriptions set order.paid points --via pull --rate 50 --max-attempts 5
  postrider subscriptions set order.paid mailer --endpoint https://mail.example.org/hook --timeout 5
  openssl rand -base64 32 > mailer.secret; postrider subscriptions set order.paid mailer \
      --endpoint https://mail.example.org/hook --secret-file mailer.secret
  postrider subscriptions set order.paid points --via rabbitmq --all-topics --reason 'points has its own database now'
  postrider subscriptions set order.paid points --disabled --if-match '\"3f2a9c0d11b7e845\"'")]
struct Set {
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
    /// Give the consumer's other topics the same --via and --endpoint: a consumer has one
    #[arg(long)]
    all_topics: bool,
    /// No new events for now
    #[arg(long)]
    disabled: bool,
    /// What it is for
    #[arg(long)]
    description: Option<String>,
    /// The position in lists
    #[arg(long, default_value_t = 0)]
    sort_order: i32,
    /// Deliveries per second on each instance, at most; via local, pull and webhook
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<u32>,
    /// How long one try may take; via local and webhook
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// How often a delivery is tried, unless its event says so; via local, pull and webhook
    #[arg(long, value_name = "ATTEMPTS")]
    max_attempts: Option<u32>,
    /// A file with the secret that signs its calls, `whsec_…`; `-` is stdin. The one before it signs beside it for 24 hours
    #[arg(long, value_name = "FILE", conflicts_with = "no_secret")]
    secret_file: Option<PathBuf>,
    /// Remove its secrets: the server's sign
    #[arg(long)]
    no_secret: bool,
    /// Change it only if it has this version: the `etag` that `list -o json` shows
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    /// Why, for the audit
    #[arg(long)]
    reason: Option<String>,
}

/// Remove a subscription for good
///
/// A restart of its consumer does not bring it back. While deliveries wait, say what becomes of them.
#[derive(Args)]
#[command(after_help = "Examples:
  postrider subscriptions remove order.paid points
  postrider subscriptions remove order.paid points --waiting deliver   # they are still delivered
  postrider subscriptions remove order.paid points --waiting discard --reason 'the service is gone'   # each is ended")]
struct Remove {
    /// The topic
    topic: String,
    /// The consumer
    consumer: String,
    /// What becomes of the deliveries that wait
    #[arg(long, value_parser = ["deliver", "discard"])]
    waiting: Option<String>,
    /// Why, for the audit; needed to discard
    #[arg(long)]
    reason: Option<String>,
    /// Remove it only if it has this version
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
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
            Action::Set(set) => {
                let (place, if_match) = (path(&set.topic, &set.consumer), set.if_match.clone());
                let stored = remote.ask_if(Method::PUT, &place, Some(&set.body()?), if_match.as_deref()).await?;
                output::one(context.output, &stored);
            }
            Action::Remove(Remove { topic, consumer, waiting, reason, if_match }) => {
                let query = [("waiting", waiting), ("reason", reason)].into_iter();
                let query = query.filter_map(|(name, text)| Some(format!("{name}={}", escaped(&text?))));
                let query: Vec<_> = query.collect();
                let place = format!("{}?{}", path(&topic, &consumer), query.join("&"));
                remote.ask_if(Method::DELETE, &place, None, if_match.as_deref()).await?;
            }
        }
        Ok(())
    }
}

fn read_secret(file: &Path) -> Result<String, End> {
    let text = match file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(file),
    };
    let text = text.map_err(|e| End::Wrong(format!("{} cannot be read: {e}", file.display())))?;
    Ok(text.trim().to_owned())
}

impl Set {
    fn body(self) -> Result<Value, End> {
        let secret = self.secret_file.as_deref().map(read_secret).transpose()?;
        let mut body = json!({ "enabled": !self.disabled, "sortOrder": self.sort_order, "allTopics": self.all_topics });
        let texts = [
            ("via", self.via),
            ("endpoint", self.endpoint),
            ("description", self.description),
            ("reason", self.reason),
        ];
        let limits =
            [("ratePerSecond", self.rate), ("timeoutSeconds", self.timeout), ("maxAttempts", self.max_attempts)];
        let texts = texts.into_iter().filter_map(|(field, text)| Some((field, Value::from(text?))));
        for (field, value) in texts.chain(limits.into_iter().filter_map(|(field, limit)| Some((field, limit?.into()))))
        {
            body[field] = value;
        }
        match secret {
            Some(secret) => body["secret"] = secret.into(),
            None if self.no_secret => body["secret"] = Value::Null,
            None => {}
        }
        Ok(body)
    }
}
