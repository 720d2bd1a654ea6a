//! Alarms: what an operator should know at once. Every alarm is an error in the log; an [`Alert`] may send it elsewhere too.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::observe;

/// Sends alarms to a chat, a pager or a queue. It runs beside the relay's work, one alarm after the other. An alarm that it
/// cannot send is counted and logged, and delays nothing.
#[async_trait]
pub trait Alert: Send + Sync + 'static {
    /// Sends one alarm.
    async fn alert(&self, alarm: &Alarm) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// Something that needs an operator, now or soon.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Alarm {
    /// A delivery is DEAD. Its effect may have happened all the same, if only the answer of the last attempt was
    /// lost.
    Dead {
        /// The event.
        event_id: String,
        /// Its topic.
        topic: String,
        /// Its key: with [`DeadHead::Hold`](crate::store::DeadHead) the later events of the key wait for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The consumer or broker that did not get it.
        lane: String,
        /// How often it was tried.
        attempts: u32,
        /// The last error.
        error: String,
        /// The code of the last error.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// A session keeps an old snapshot of the database open: dead rows cannot be removed, and every claim has to skip them.
    SnapshotHeld {
        /// The session.
        holder: String,
        /// For how long, in seconds.
        seconds: u64,
    },
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dead { event_id, topic, lane, attempts, error, .. } => {
                write!(f, "{topic} {event_id} is DEAD for {lane} after {attempts} attempts: {error}")
            }
            Self::SnapshotHeld { holder, seconds } => {
                write!(f, "{holder} has kept a snapshot of the database for {seconds} s: claims get slower; end it")
            }
        }
    }
}

/// A session that keeps an old snapshot of the database open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotHolder {
    /// A session, a prepared transaction or a replication slot, described so that an operator can find it.
    pub holder: String,
    /// How long it has kept it.
    pub age: Duration,
}

impl Alarm {
    /// Writes the alarm to the log, as an error.
    pub(crate) fn log(&self) {
        match self {
            Self::Dead { event_id, topic, key, lane, attempts, error, code } => {
                tracing::error!(
                    event_id,
                    topic,
                    key,
                    consumer = lane,
                    attempts,
                    code,
                    error,
                    "DEAD: given up. Redrive it when the cause is repaired"
                );
            }
            Self::SnapshotHeld { holder, seconds } => {
                tracing::error!(holder, seconds, "a held snapshot slows every claim: end it");
            }
        }
    }

    /// Sends the alarm to every sink.
    pub(crate) async fn send(&self, alerts: &[Arc<dyn Alert>]) {
        for alert in alerts {
            if let Err(error) = alert.alert(self).await {
                observe::alert_failed();
                tracing::error!(alarm = %self, %error, "an alarm could not be sent");
            }
        }
    }
}

/// Posts alarms as JSON to a URL.
#[cfg(feature = "webhook")]
#[derive(Debug, Clone)]
pub struct WebhookAlert {
    url: reqwest::Url,
    client: reqwest::Client,
}

#[cfg(feature = "webhook")]
impl WebhookAlert {
    /// Alarms go to `url`, with ten seconds for the answer. Redirects are not followed.
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
