//! What is sent about an alert.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::error::Error;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum AlertKind {
    /// A consumer has dead deliveries.
    Dead,
    /// A delivery of a consumer has been due for too long.
    Oldest,
    /// Deliveries of a consumer are due, and no process takes them.
    Stalled,
    /// The broker is blocked or unreachable.
    BrokerBlocked,
    /// The store does not answer.
    StoreAway,
}

impl AlertKind {
    const ALL: [Self; 5] = [Self::Dead, Self::Oldest, Self::Stalled, Self::BrokerBlocked, Self::StoreAway];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Oldest => "oldest",
            Self::Stalled => "stalled",
            Self::BrokerBlocked => "brokerBlocked",
            Self::StoreAway => "storeAway",
        }
    }
}

impl FromStr for AlertKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| Error::invalid("alert", format!("{text:?} is no alert")))
    }
}

/// Whether an alert begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AlertState {
    /// It begins.
    Firing,
    /// It is over.
    Over,
}

impl fmt::Display for AlertState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Firing => "firing",
            Self::Over => "over",
        })
    }
}

/// A message about an alert: the body of a webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// What is wrong.
    pub alert: AlertKind,
    /// Whether it begins or ends.
    pub state: AlertState,
    /// When it began.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// What is known about it.
    #[serde(flatten)]
    pub details: AlertDetails,
    /// The name of this installation.
    pub environment: String,
}

/// What is known about an alert when it begins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertDetails {
    /// The consumer, or the broker's lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// The event that died last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The code of its last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How many deliveries wait behind dead ones of their keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
    /// Numbers and texts by name.
    pub figures: serde_json::Map<String, serde_json::Value>,
}

impl Notice {
    /// Writes it to the log: the beginning as an error.
    pub(super) fn log(&self) {
        let (alert, since) = (self.alert.as_str(), self.since);
        let AlertDetails { consumer, event_id, code, key, held, figures } = &self.details;
        let (consumer, event_id) = (consumer.as_deref(), event_id.as_deref());
        let figures = serde_json::to_string(figures).unwrap_or_default();
        match self.state {
            AlertState::Firing => {
                tracing::error!(alert, consumer, event_id, code, key, held, figures, %since, "ALERT: it begins");
            }
            AlertState::Over => tracing::info!(alert, consumer, figures, %since, "ALERT: it is over"),
        }
    }
}
