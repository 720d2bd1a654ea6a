//! `postrider listen`: a pulling consumer for trials.

use std::time::Duration;

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Remote, escaped, rows};
use crate::output::Format;
use crate::{Context, End, print_data, print_note};

/// The pause between two requests while the server does not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Take events as a consumer, print them, and settle them
#[derive(Args)]
#[command(after_help = "Examples:
  postrider listen order.paid --consumer points
  postrider listen order.paid order.canceled --consumer points --fail-rate 0.3
  postrider listen order.paid --consumer points --count 1 -o jsonl")]
pub(crate) struct Listen {
    /// The topics; `*` for all
    #[arg(required = true)]
    topics: Vec<String>,
    /// The name of the consumer; it is subscribed if it is not yet
    #[arg(long, value_name = "NAME")]
    consumer: String,
    /// The share of events that fail on purpose
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    fail_rate: f64,
    /// Stop after this many events
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    remote: Remote,
}

impl Listen {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        if !(0.0..=1.0).contains(&self.fail_rate) {
            return Err(End::Usage(format!("--fail-rate must be a share from 0 to 1, is {}", self.fail_rate)));
        }
        self.subscribe().await?;
        print_note(format!("{} listens to {}", self.consumer, self.topics.join(", ")));
        let working = self.work(context);
        tokio::select! {
            ended = working => ended,
            stopped = tokio::signal::ctrl_c() => stopped.map_err(|error| End::Wrong(error.to_string())),
        }
    }

    /// Subscribes to topics that the consumer has no subscription for. Existing ones are not changed.
    async fn subscribe(&self) -> Result<(), End> {
        let known = rows(&self.remote.get("/subscriptions").await?, "subscriptions");
        for topic in &self.topics {
            let is_known = |one: &Value| one["topic"] == *topic && one["consumerId"] == *self.consumer;
            if !known.iter().any(is_known) {
                let path = format!("/subscriptions/{}/{}", escaped(topic), escaped(&self.consumer));
                self.remote.ask(Method::PUT, &path, Some(&json!({ "via": "pull" }))).await?;
            }
        }
        Ok(())
    }

    async fn work(&self, context: &Context) -> Result<(), End> {
        let path = format!("/consumers/{}", escaped(&self.consumer));
        let mut taken = 0;
        loop {
            let most = self.count.map_or(10, |count| (count - taken).min(10));
            if most == 0 {
                return Ok(());
            }
            let wanted = json!({ "max": most, "waitSeconds": 30 });
            let claimed = rows(&self.post(&format!("{path}/claim"), &wanted).await?, "deliveries");
            taken += claimed.len() as u64;
            let results: Vec<_> = claimed.iter().map(|delivery| self.handle(context, delivery)).collect();
            if !results.is_empty() {
                self.post(&format!("{path}/settle"), &json!({ "results": results })).await?;
            }
        }
    }

    /// Asks until the server answers: it may be restarting.
    async fn post(&self, path: &str, body: &Value) -> Result<Value, End> {
        let mut is_away = false;
        loop {
            match self.remote.post(path, body).await {
                Err(End::Away(why)) => {
                    if !std::mem::replace(&mut is_away, true) {
                        print_note(format!("{why} Trying again."));
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                answer => {
                    if is_away {
                        print_note("The server answers again.");
                    }
                    return answer;
                }
            }
        }
    }

    /// Prints an event and returns its result.
    fn handle(&self, context: &Context, delivery: &Value) -> Value {
        let success = fastrand::f64() >= self.fail_rate;
        let event = &delivery["event"];
        match context.output {
            Format::Table => print_data(format!(
                "{} {} attempt {} {}: {}",
                event["topic"].as_str().unwrap_or_default(),
                event["eventId"].as_str().unwrap_or_default(),
                delivery["attempt"],
                if success { "ok" } else { "failed on purpose" },
                event["payload"],
            )),
            Format::Json | Format::Jsonl => print_data(event),
        }
        let mut result =
            json!({ "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"], "success": success });
        if !success {
            result["errorMessage"] = "failed on purpose".into();
        }
        result
    }
}
