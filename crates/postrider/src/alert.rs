//! What an operator must know at once.
//!
//! An [`Alarm`] tells of one delivery, at the moment when it is given up: an error in the log, and an [`Alert`] may send it
//! elsewhere too. [`Alerting`] watches a whole store: each alert is sent once when it begins and once when it is over.

mod notice;
mod rules;
mod watch;
#[cfg(feature = "webhook")]
mod webhook;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use notice::{AlertDetails, AlertKind, AlertState, Notice};
pub use rules::AlertRules;
pub(crate) use rules::{LaneFacts, Stalls, standing_lanes};
pub(crate) use watch::lane_facts;
pub use watch::{Alerting, Notify};
#[cfg(feature = "webhook")]
pub use webhook::NotifyWebhook;

use crate::consumer::Failure;
use crate::limits;
use crate::observe::{self, LaneFigures};
use crate::store::{Appended, DeadLetter, DeliveryId, Report, Store};

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
        /// Its trace.
        #[serde(skip_serializing_if = "Option::is_none")]
        trace_id: Option<String>,
        /// The request that it came from.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
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
        /// How many later deliveries of its key wait behind it; `None` if that is not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        held: Option<u64>,
    },
    /// A session keeps an old snapshot of the database open: dead rows cannot be removed, and every claim has to skip them.
    SnapshotHeld {
        /// The session.
        holder: String,
        /// For how long, in seconds.
        seconds: u64,
    },
    /// Old rows are not removed, so the tables grow.
    NotPruned {
        /// Why not.
        error: String,
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
            Self::NotPruned { error } => write!(f, "old rows are not removed, and the tables grow: {error}"),
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

impl From<DeadLetter> for Alarm {
    fn from(letter: DeadLetter) -> Self {
        Self::Dead {
            event_id: letter.event_id,
            topic: letter.topic,
            trace_id: letter.trace_id,
            request_id: letter.request_id,
            key: letter.key,
            lane: letter.consumer,
            attempts: letter.attempts,
            error: letter.error.unwrap_or_default(),
            code: letter.code,
            held: Some(letter.held),
        }
    }
}

/// Logs deliveries that were buried without a relay, one error for each.
#[doc(hidden)]
pub async fn log_dead(store: &dyn Store, deliveries: &[DeliveryId]) {
    if deliveries.is_empty() {
        return;
    }
    match store.find_dead(deliveries).await {
        Ok(letters) => letters.into_iter().for_each(|letter| Alarm::from(letter).log()),
        Err(error) => {
            let error = Failure::from(error);
            for DeliveryId { sequence, number, .. } in deliveries {
                tracing::error!(sequence, number, %error, "DEAD: given up, and its event could not be read");
            }
        }
    }
}

/// Counts the report of a remote consumer. A failure for good is logged like every dead delivery.
#[doc(hidden)]
pub async fn note_report(store: &dyn Store, report: &Report, appended: &Appended) {
    let figures = LaneFigures::new(&report.consumer);
    match appended {
        Appended::Attempt(_) if report.success => figures.reported(),
        Appended::Attempt(_) => figures.failed(),
        Appended::Repeated(_) if report.success => figures.idempotent(),
        Appended::Repeated(_) | Appended::NotExpected => {}
    }
    if let Some(attempts) = last_attempt(report, appended) {
        figures.dead();
        log_given_up(store, report, attempts).await;
    }
}

/// The number of the attempt, if the consumer has given up with it.
pub(crate) fn last_attempt(report: &Report, appended: &Appended) -> Option<u32> {
    match appended {
        Appended::Attempt(attempt) if !report.success && !report.will_retry => Some(*attempt),
        _ => None,
    }
}

/// Logs that a remote consumer has given up.
pub(crate) async fn log_given_up(store: &dyn Store, report: &Report, attempts: u32) {
    let envelope = match store.find(&report.event_id).await {
        Ok(found) => found.map(|found| found.envelope),
        Err(error) => {
            tracing::warn!(event_id = report.event_id, error = %Failure::from(error), "a dead event could not be read");
            None
        }
    };
    let alarm = Alarm::Dead {
        event_id: report.event_id.clone(),
        topic: envelope.as_ref().map(|envelope| envelope.topic.clone()).unwrap_or_default(),
        trace_id: envelope.as_ref().and_then(|envelope| envelope.trace_id.clone()),
        request_id: envelope.as_ref().and_then(|envelope| envelope.request_id()).map(Into::into),
        key: envelope.and_then(|envelope| envelope.key),
        lane: report.consumer.clone(),
        attempts,
        error: limits::error_text(report.error.as_deref().unwrap_or("failed, without a reason")),
        code: report.code.as_deref().map(limits::error_code),
        held: None,
    };
    alarm.log();
}

impl Alarm {
    /// Writes the alarm to the log, as an error.
    pub(crate) fn log(&self) {
        match self {
            Self::Dead { event_id, topic, trace_id, request_id, key, lane, attempts, error, code, held } => {
                tracing::error!(
                    event_id,
                    topic,
                    trace_id,
                    request_id,
                    key,
                    consumer = lane,
                    attempts,
                    code,
                    held,
                    error,
                    "DEAD: given up. Redrive it when the cause is repaired"
                );
            }
            Self::SnapshotHeld { holder, seconds } => {
                tracing::error!(holder, seconds, "a held snapshot slows every claim: end it");
            }
            Self::NotPruned { error } => tracing::error!(error, "old rows are not removed, and the tables grow"),
        }
    }

    /// Adds how many deliveries wait behind a dead one. Only a key has such deliveries.
    pub(crate) async fn count_held(&mut self, store: &dyn Store, delivery: DeliveryId) {
        let Self::Dead { key, held, .. } = self else { return };
        *held = match key {
            None => Some(0),
            // The alarm is more important than the number.
            Some(_) => store.find_dead(&[delivery]).await.ok().and_then(|dead| dead.first().map(|letter| letter.held)),
        };
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
