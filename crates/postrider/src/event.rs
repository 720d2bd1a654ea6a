//! An event: a fact about your business, as your program knows it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::consumer::Failure;
use crate::envelope::{Encoding, Envelope};
use crate::error::Result;
use crate::limits;
use crate::subscription::EVERY_TOPIC;

/// The code of a failure to decode a payload. [`LaneOptions::retry_by_code`](crate::LaneOptions) may name a policy for it.
pub const UNDECODABLE: &str = "undecodable";

/// A fact that is written in the transaction that makes it true.
///
/// ```
/// use postrider::{Aggregate, Event};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct OrderPaid { order_id: i64, amount_cents: i64 }
///
/// impl Event for OrderPaid {
///     const TOPIC: &'static str = "order.paid";
///     fn aggregate(&self) -> Option<Aggregate> { Some(Aggregate::new("ORDER", self.order_id)) }
///     fn key(&self) -> Option<String> { Some(self.order_id.to_string()) } // events of one key stay in order
///     fn event_id(&self) -> Option<String> { Some(format!("order:{}:paid", self.order_id)) } // one such event per order
/// }
/// ```
pub trait Event: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What kind of fact this is: `order.paid`. Consumers subscribe to it.
    const TOPIC: &'static str;

    /// The thing the fact is about.
    fn aggregate(&self) -> Option<Aggregate> {
        None
    }

    /// Events of one key reach each consumer in the order in which they were enqueued, where the caller holds a lock on
    /// the aggregate when it enqueues. None: no order.
    fn key(&self) -> Option<String> {
        None
    }

    /// A deterministic id makes writing the same fact twice a no-op. None: a new UUID each time.
    fn event_id(&self) -> Option<String> {
        None
    }
}

/// What a consumer receives, made from an envelope: a typed [`Event`], or a [`RawEvent`].
pub trait FromEnvelope: Sized + Send + 'static {
    /// The topics that a consumer of it is subscribed to, unless the consumer names others. `*` stands for every topic.
    const TOPICS: &'static [&'static str];

    /// Decodes the payload.
    fn from_envelope(envelope: &Arc<Envelope>) -> Result<Self, Failure>;
}

impl<E: Event> FromEnvelope for E {
    const TOPICS: &'static [&'static str] = &[E::TOPIC];

    fn from_envelope(envelope: &Arc<Envelope>) -> Result<Self, Failure> {
        serde_json::from_str(&envelope.payload).map_err(|error| {
            let why = without_values(&error);
            Failure::reject(format!("the payload is no {}: {why}", E::TOPIC)).code(UNDECODABLE)
        })
    }
}

/// The error without the values it found: payloads are not logged.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let names_a_field = ["missing field", "unknown field", "duplicate field"].iter().any(|kind| text.starts_with(kind));
    if names_a_field {
        text
    } else {
        format!("{:?} error at line {} column {}", error.classify(), error.line(), error.column())
    }
}

/// An event of any topic and any content type, not decoded. It derefs to its [`Envelope`].
///
/// A consumer of raw events gets every topic, unless it names its topics:
///
/// ```
/// use postrider::event::RawEvent;
/// use postrider::store::memory::{Conn, MemoryStore};
/// use postrider::{Consumer, Failure, Received};
///
/// struct Archive;
///
/// impl Consumer<MemoryStore> for Archive {
///     const NAME: &'static str = "archive";
///     const TOPICS: &'static [&'static str] = &["invoice.printed", "label.printed"];
///     type Event = RawEvent;
///
///     async fn handle(&self, _tx: &mut Conn, file: Received<RawEvent>) -> Result<(), Failure> {
///         let (kind, bytes) = (&file.payload_type, file.bytes()?);
///         println!("{} {kind}: {} bytes", file.topic, bytes.len());
///         Ok(())
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct RawEvent(Arc<Envelope>);

impl RawEvent {
    /// The payload. Where it is stored as base64, the bytes that were enqueued.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, Failure> {
        use base64::prelude::*;
        match self.0.payload_encoding {
            Encoding::Plain => Ok(self.0.payload.as_bytes().into()),
            Encoding::Base64 => {
                let bytes = BASE64_STANDARD.decode(&self.0.payload);
                Ok(bytes.map_err(|_| Failure::retry("the payload is not base64").code(UNDECODABLE))?.into())
            }
        }
    }
}

impl Deref for RawEvent {
    type Target = Envelope;

    fn deref(&self) -> &Envelope {
        &self.0
    }
}

impl FromEnvelope for RawEvent {
    const TOPICS: &'static [&'static str] = &[EVERY_TOPIC];

    fn from_envelope(envelope: &Arc<Envelope>) -> Result<Self, Failure> {
        Ok(Self(Arc::clone(envelope)))
    }
}

/// The thing an event is about: its type and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    /// `ORDER`
    pub kind: String,
    /// `7`
    pub id: String,
}

impl Aggregate {
    /// `Aggregate::new("ORDER", 7)`
    pub fn new(kind: impl Into<String>, id: impl fmt::Display) -> Self {
        Self { kind: kind.into(), id: id.to_string() }
    }
}

/// The id of an event: unique in its store, compared byte for byte, never reused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(String);

impl EventId {
    /// Takes an id of the caller's own: 1 to 64 characters, no control characters.
    pub fn new(id: impl Into<String>) -> Result<Self> {
        let id = id.into();
        limits::text("eventId", &id, limits::EVENT_ID_CHARS)?;
        Ok(Self(id))
    }

    /// What the store holds was checked when it was written.
    pub(crate) fn stored(id: String) -> Self {
        Self(id)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    #[allow(dead_code, reason = "only its decoding is of interest")]
    struct Paid {
        cents: i64,
    }

    #[test]
    fn an_undecodable_payload_is_described_without_its_values() {
        let describe = |json: &str| match serde_json::from_str::<Paid>(json) {
            Ok(_) => panic!("{json} is a payment"),
            Err(e) => without_values(&e),
        };
        assert_eq!(describe("{}"), "missing field `cents` at line 1 column 2");
        let secret = describe(r#"{"cents": "hunter2"}"#);
        assert_eq!(secret, "Data error at line 1 column 19");
    }

    #[test]
    fn an_event_id_stops_at_64_characters() {
        assert!(EventId::new("号".repeat(64)).is_ok());
        let refused = EventId::new("a".repeat(65)).expect_err("too long");
        assert_eq!(refused.to_string(), "eventId must have 1 to 64 characters, has 65");
        assert!(EventId::new("").is_err());
        assert!(EventId::new("a\0b").is_err());
    }
}
