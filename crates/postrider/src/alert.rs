//! What a person should hear of at once.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

/// Passes alarms on: to a chat, a pager, a queue. Called beside the relay's work, one alarm after the other; what it cannot
/// pass on is counted and logged, and delays nothing.
#[async_trait]
pub trait Alert: Send + Sync + 'static {
    /// Passes one alarm on.
    async fn alert(&self, alarm: &Alarm) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// Something that mends itself no more, or is about to hurt.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Alarm {
    /// A delivery was given up. It may have been delivered all the same, if its last try only seemed to fail.
    Dead {
        /// The event.
        event_id: String,
        /// Its topic.
        topic: String,
        /// The consumer or broker that did not get it.
        lane: String,
        /// How often it was tried.
        attempts: u32,
        /// What went wrong last.
        error: String,
    },
    /// Somebody keeps an old snapshot of the database open: dead rows cannot be removed, and every claim has to step over
    /// them.
    SnapshotHeld {
        /// Who.
        holder: String,
        /// For how long, in seconds.
        seconds: u64,
    },
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dead { event_id, topic, lane, attempts, error } => {
                write!(f, "{topic} {event_id} is DEAD for {lane} after {attempts} attempts: {error}")
            }
            Self::SnapshotHeld { holder, seconds } => {
                write!(f, "{holder} has kept a snapshot of the database for {seconds} s: claims get slower; end it")
            }
        }
    }
}

/// Whoever keeps an old snapshot of the database open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotHolder {
    /// A session, a prepared transaction or a replication slot, in words that find it.
    pub holder: String,
    /// Since when, as time until now.
    pub age: Duration,
}

/// Writes alarms to the log as errors: the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogAlert;

#[async_trait]
impl Alert for LogAlert {
    async fn alert(&self, alarm: &Alarm) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        match alarm {
            Alarm::Dead { event_id, topic, lane, attempts, error } => {
                tracing::error!(
                    event_id,
                    topic,
                    consumer = lane,
                    attempts,
                    error,
                    "DEAD: given up, redrive it when mended"
                );
            }
            Alarm::SnapshotHeld { holder, seconds } => {
                tracing::error!(holder, seconds, "a held snapshot slows every claim: end it");
            }
        }
        Ok(())
    }
}

/// Posts alarms as JSON to an address.
#[cfg(feature = "webhook")]
#[derive(Debug, Clone)]
pub struct WebhookAlert {
    url: reqwest::Url,
    client: reqwest::Client,
}

#[cfg(feature = "webhook")]
impl WebhookAlert {
    /// Alarms go to `url`, each with ten seconds to be answered; redirects are not followed.
    pub fn new(url: &str) -> crate::Result<Self> {
        let url =
            reqwest::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(|| {
                crate::Error::invalid("alert url", format!("must begin with https:// or http://, is {url:?}"))
            })?;
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(10))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|e| crate::Error::Unsupported(e.to_string()))?;
        Ok(Self { url, client })
    }
}

#[cfg(feature = "webhook")]
#[async_trait]
impl Alert for WebhookAlert {
    async fn alert(&self, alarm: &Alarm) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let body = serde_json::json!({ "alarm": alarm, "text": alarm.to_string() }).to_string();
        let request = self.client.post(self.url.clone()).header("content-type", "application/json").body(body);
        let status = request.send().await?.status();
        if !status.is_success() {
            return Err(format!("{} answered {status}", self.url.host_str().unwrap_or_default()).into());
        }
        Ok(())
    }
}
