//! Alerts in a store: what fires, and what is still to be sent about it.

use async_trait::async_trait;
use time::OffsetDateTime;

use crate::alert::{AlertKind, AlertState};
use crate::error::Result;

/// The open alerts. One instance writes them, under a lease; what it has begun to send, the next one completes.
#[async_trait]
pub trait Alerts: Send + Sync {
    /// The alerts that fire and those whose end is not sent yet, by kind and subject.
    async fn alerts(&self) -> Result<Vec<StoredAlert>>;

    /// Begins an alert. Returns false if one of this kind and subject is open.
    async fn begin_alert(&self, alert: &NewAlert<'_>) -> Result<bool>;

    /// Ends an alert. Returns false if it has ended before.
    async fn end_alert(&self, alert_id: &str) -> Result<bool>;

    /// The beginning or the end of an alert was sent. After its end was sent, the alert is forgotten.
    async fn note_alert_sent(&self, alert_id: &str, state: AlertState) -> Result<()>;
}

/// An alert to begin.
#[derive(Debug, Clone)]
pub struct NewAlert<'a> {
    /// Drawn at random; the same in every message about this alert.
    pub alert_id: &'a str,
    /// What is wrong.
    pub kind: AlertKind,
    /// The consumer that it is about, if it is about one.
    pub subject: Option<&'a str>,
    /// JSON: what is sent.
    pub details: &'a str,
}

/// An open alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAlert {
    /// Its id.
    pub alert_id: String,
    /// What is wrong.
    pub kind: AlertKind,
    /// The consumer that it is about, if it is about one.
    pub subject: Option<String>,
    /// When it began.
    pub since: OffsetDateTime,
    /// JSON: what is sent.
    pub details: String,
    /// Whether its beginning was sent.
    pub sent: bool,
    /// When it ended.
    pub over_at: Option<OffsetDateTime>,
}
