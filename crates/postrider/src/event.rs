//! Events: facts about your business.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::consumer::Failure;
use crate::envelope::{Encoding, Envelope};
use crate::error::{Error, Result};
use crate::limits;
use crate::subscription::EVERY_TOPIC;

/// The key of the payload's version in the metadata of an envelope.
pub const PAYLOAD_VERSION: &str = "payloadVersion";

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
///
/// # Versions
///
/// A field that is added with a default needs no new version: older payloads still decode. For any other change raise
/// [`VERSION`](Self::VERSION), and build the event from older payloads in [`upcast`](Self::upcast). The version is
/// stored in the metadata of the envelope, as `payloadVersion`; if it is missing, it is 1.
///
/// ```
/// # use postrider::Event;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize)]
/// struct OrderPaid { order_id: i64, amount_cents: i64 }
///
/// impl Event for OrderPaid {
///     const TOPIC: &'static str = "order.paid";
///     const VERSION: u32 = 2;
///
///     fn upcast(_version: u32, payload: serde_json::Value) -> serde_json::Result<Self> {
///         // Version 1 had the amount in whole euros.
///         #[derive(Deserialize)]
///         struct V1 { order_id: i64, amount: i64 }
///         let old: V1 = serde_json::from_value(payload)?;
///         Ok(Self { order_id: old.order_id, amount_cents: old.amount * 100 })
///     }
/// }
/// ```
///
/// A payload that does not decode, or has a newer version than the program knows, fails under the code
/// [`UNDECODABLE`] and is retried as [`LaneOptions::retry`](crate::LaneOptions) says, so that events of a newer program
/// survive a rolling deployment. A policy of one attempt in
/// [`LaneOptions::retry_by_code`](crate::LaneOptions) gives them up at once instead.
pub trait Event: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The kind of fact: `order.paid`. Consumers subscribe to it.
    const TOPIC: &'static str;

    /// The version of the payload. See [above](Self#versions).
    const VERSION: u32 = 1;

    /// Builds the event from a payload of an older version. The default decodes it as it is.
    fn upcast(version: u32, payload: serde_json::Value) -> serde_json::Result<Self> {
        let _ = version;
        serde_json::from_value(payload)
    }

    /// The entity that the fact is about.
    fn aggregate(&self) -> Option<Aggregate> {
        None
    }

    /// Events of one key reach each consumer in the order in which they were enqueued, if the caller holds a lock on
    /// the aggregate when it enqueues. `None` means no order.
    fn key(&self) -> Option<String> {
        None
    }

    /// A deterministic id makes writing the same fact twice a no-op. `None` means a new UUID each time.
    fn event_id(&self) -> Option<String> {
        None
    }
}

/// The type that a consumer receives, made from an envelope: a typed [`Event`], or a [`RawEvent`].
pub trait FromEnvelope: Sized + Send + 'static {
    /// The topics that a consumer of it is subscribed to, unless the consumer names others. `*` means every topic.
    const TOPICS: &'static [&'static str];

    /// Decodes the payload.
    fn from_envelope(envelope: &Arc<Envelope>) -> Result<Self, Failure>;
}

impl<E: Event> FromEnvelope for E {
    const TOPICS: &'static [&'static str] = &[E::TOPIC];

    fn from_envelope(envelope: &Arc<Envelope>) -> Result<Self, Failure> {
        let undecodable =
            |why: String| Failure::retry(format!("the payload is no {}: {why}", E::TOPIC)).code(UNDECODABLE);
        let version = payload_version(envelope).map_err(&undecodable)?;
        let decoded = match version.cmp(&E::VERSION) {
            Ordering::Equal => serde_json::from_str(&envelope.payload),
            Ordering::Less => serde_json::from_str(&envelope.payload).and_then(|payload| E::upcast(version, payload)),
            Ordering::Greater => {
                let known = E::VERSION;
                return Err(undecodable(format!("it has version {version}, and this program knows up to {known}")));
            }
        };
        decoded.map_err(|error| undecodable(without_values(&error)))
    }
}

/// The version of the payload; 1 if the metadata has none.
fn payload_version(envelope: &Envelope) -> Result<u32, String> {
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(rename = "payloadVersion")]
        version: Option<u32>,
    }
    match &envelope.metadata {
        // Most metadata has none, so the text is searched before it is parsed.
        Some(metadata) if metadata.contains(PAYLOAD_VERSION) => {
            let versioned: Versioned =
                serde_json::from_str(metadata).map_err(|_| "its version is no number".to_owned())?;
            Ok(versioned.version.unwrap_or(1))
        }
        _ => Ok(1),
    }
}

/// Metadata with the payload's version in it. The text of the object stays as it is.
pub(crate) fn with_payload_version(metadata: Option<String>, version: u32) -> Result<String> {
    let Some(metadata) = metadata else { return Ok(format!(r#"{{"{PAYLOAD_VERSION}":{version}}}"#)) };
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&metadata).map_err(|_| Error::invalid("metadata", "must be a JSON object".into()))?;
    if object.contains_key(PAYLOAD_VERSION) {
        return Err(Error::invalid(
            "metadata",
            format!("must not have {PAYLOAD_VERSION}: it is written from the event"),
        ));
    }
    let rest = metadata.trim_start().trim_start_matches('{');
    let comma = if object.is_empty() { "" } else { "," };
    Ok(format!(r#"{{"{PAYLOAD_VERSION}":{version}{comma}{rest}"#))
}

/// The error without the values it contains: payloads are not logged.
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
    /// The version of the payload: see [`Event`](Event#versions).
    pub fn version(&self) -> Result<u32, Failure> {
        payload_version(&self.0).map_err(|why| Failure::retry(why).code(UNDECODABLE))
    }

    /// The payload. If it is stored as base64, the bytes that were enqueued.
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

/// The entity that an event is about: its type and its id.
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
    /// An id chosen by the caller: 1 to 64 characters, no control characters.
    pub fn new(id: impl Into<String>) -> Result<Self> {
        let id = id.into();
        limits::text("eventId", &id, limits::EVENT_ID_CHARS)?;
        Ok(Self(id))
    }

    /// Not checked again: a stored id was checked when it was written.
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

    /// Version 1 had euros and other field names.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Refunded {
        cents: i64,
    }

    impl Event for Refunded {
        const TOPIC: &'static str = "order.refunded";
        const VERSION: u32 = 3;

        fn upcast(version: u32, payload: serde_json::Value) -> serde_json::Result<Self> {
            match version {
                1 => Ok(Self { cents: payload["euros"].as_i64().unwrap_or_default() * 100 }),
                _ => serde_json::from_value(payload),
            }
        }
    }

    fn decode(payload: &str, metadata: Option<&str>) -> Result<Refunded, Failure> {
        let id = EventId::new("e").expect("an id");
        let mut envelope = Envelope::new(id, "order.refunded", payload, time::OffsetDateTime::UNIX_EPOCH);
        envelope.metadata = metadata.map(Into::into);
        Refunded::from_envelope(&Arc::new(envelope))
    }

    #[test]
    fn older_payloads_are_upcast_and_newer_ones_are_tried_again_later() {
        assert_eq!(decode(r#"{"euros":5}"#, None), Ok(Refunded { cents: 500 }));
        assert_eq!(decode(r#"{"cents":5}"#, Some(r#"{"payloadVersion":2}"#)), Ok(Refunded { cents: 5 }));
        assert_eq!(decode(r#"{"cents":5}"#, Some(r#"{"payloadVersion":3,"a":1}"#)), Ok(Refunded { cents: 5 }));
        for metadata in [r#"{"payloadVersion":4}"#, r#"{"payloadVersion":"hunter2"}"#] {
            let failure = decode(r#"{"cents":5}"#, Some(metadata)).expect_err("it is not known");
            assert!(matches!(failure, Failure::Retry(_)) && !failure.to_string().contains("hunter2"), "{failure}");
            assert_eq!(failure.cause().code.as_deref(), Some(UNDECODABLE));
        }
    }

    #[test]
    fn the_version_joins_the_metadata_and_leaves_its_text_alone() {
        let with = |metadata: Option<&str>| with_payload_version(metadata.map(Into::into), 2);
        assert_eq!(with(None).expect("none"), r#"{"payloadVersion":2}"#);
        assert_eq!(with(Some(" { }")).expect("empty"), r#"{"payloadVersion":2 }"#);
        assert_eq!(with(Some(r#"{"b": 1.0, "a":{}}"#)).expect("an object"), r#"{"payloadVersion":2,"b": 1.0, "a":{}}"#);
        assert!(with(Some("[]")).is_err());
        assert!(with(Some(r#"{"payloadVersion":1}"#)).is_err());
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
