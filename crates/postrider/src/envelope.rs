//! The envelope: everything known about an event, with its payload. It is stored once, never changed, and is the same
//! on every store, over HTTP and on a broker.

pub mod cloudevents;
mod metadata;
pub(crate) mod origin;
mod readable;
pub mod trace;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::OffsetDateTime;

use crate::error::{Error, Result};
use crate::event::{Aggregate, EventId};
use crate::limits;
use crate::shard;

pub use metadata::MetadataIds;
pub use readable::{UNREADABLE, unreadable};

/// The default payload type.
pub const JSON: &str = "application/json";

/// An event as it is stored and sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Unique in its store.
    pub event_id: EventId,
    /// The kind of fact.
    pub topic: String,
    /// Orders events: events of one key reach a consumer one after the other.
    pub key: Option<String>,
    /// The payload as the original text: numbers and order of fields are unchanged.
    pub payload: String,
    /// The media type of the payload.
    pub payload_type: Cow<'static, str>,
    /// Whether the text is the payload itself, or base64 of its bytes.
    pub payload_encoding: Encoding,
    /// The trace that this event belongs to.
    pub trace_id: Option<String>,
    /// The span that wrote it.
    pub span_id: Option<String>,
    /// The event that was being consumed when this one was written.
    pub parent_event_id: Option<EventId>,
    /// The entity that the event is about.
    pub aggregate: Option<Aggregate>,
    /// The tenant, in a multi-tenant system.
    pub tenant_id: Option<String>,
    /// The store (shop, branch) that it came from.
    pub store_id: Option<String>,
    /// Who caused it.
    pub initiator: Initiator,
    /// Other data, as a JSON object.
    pub metadata: Option<Box<str>>,
    /// The id of the CloudEvent that it came as: unique for its source only.
    pub cloud_event_id: Option<String>,
    /// When the fact became true, by the producer's clock.
    pub occurred_at: OffsetDateTime,
    /// The expiry: it is not delivered after this time.
    pub expire_at: Option<OffsetDateTime>,
    /// It is not delivered before this time.
    pub deliver_at: Option<OffsetDateTime>,
    /// Maximum attempts, if they differ from the lane's policy.
    pub max_attempts: Option<u32>,
    /// The broker's exchange, if it is not the default one.
    pub exchange: Option<String>,
    /// The broker's routing key, if it is not the topic.
    pub routing_key: Option<String>,
}

/// How the payload is encoded as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// As it is.
    #[default]
    Plain,
    /// As base64 of the bytes.
    Base64,
}

/// Who or what caused an event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Initiator {
    /// The service that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The operation that it performed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The id of the client's request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<String>,
    /// The token that the event was published with, over HTTP. The server writes it: the fields above are what the publisher says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
}

impl Initiator {
    /// Whether all fields are empty.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Envelope {
    /// An envelope with only the required fields.
    pub fn new(
        event_id: EventId,
        topic: impl Into<String>,
        payload: impl Into<String>,
        occurred_at: OffsetDateTime,
    ) -> Self {
        Self {
            event_id,
            topic: topic.into(),
            key: None,
            payload: payload.into(),
            payload_type: JSON.into(),
            payload_encoding: Encoding::Plain,
            trace_id: None,
            span_id: None,
            parent_event_id: None,
            aggregate: None,
            tenant_id: None,
            store_id: None,
            initiator: Initiator::default(),
            metadata: None,
            cloud_event_id: None,
            occurred_at: trim(occurred_at),
            expire_at: None,
            deliver_at: None,
            max_attempts: None,
            exchange: None,
            routing_key: None,
        }
    }

    /// The id of the request that caused the event, for log lines.
    pub(crate) fn request_id(&self) -> Option<&str> {
        self.initiator.client_request_id.as_deref()
    }

    /// Checks every limit. An envelope that passes can be stored by every store and comes back the same.
    pub fn check(&self) -> Result<()> {
        limits::name("topic", &self.topic)?;
        limits::bytes("payload", &self.payload, limits::PAYLOAD_BYTES)?;
        if self.is_json() {
            limits::json_depth("payload", &self.payload)?;
            if let Some(fault) = unreadable(&self.payload) {
                return Err(Error::invalid("payload", fault));
            }
        }
        limits::text("payloadType", &self.payload_type, limits::LABEL_CHARS)?;
        let label =
            |field, value: &Option<String>, max| value.as_ref().map_or(Ok(()), |text| limits::text(field, text, max));
        label("key", &self.key, limits::KEY_CHARS)?;
        label("traceId", &self.trace_id, limits::LABEL_CHARS)?;
        label("spanId", &self.span_id, limits::LABEL_CHARS)?;
        label("tenantId", &self.tenant_id, limits::LABEL_CHARS)?;
        label("storeId", &self.store_id, limits::LABEL_CHARS)?;
        if let Some(aggregate) = &self.aggregate {
            limits::text("aggregateType", &aggregate.kind, limits::LABEL_CHARS)?;
            limits::text("aggregateId", &aggregate.id, limits::LABEL_CHARS)?;
        }
        for (field, route) in [("exchange", &self.exchange), ("routingKey", &self.routing_key)] {
            if let Some(route) = route {
                limits::bytes(field, route, limits::ROUTE_BYTES)?;
            }
        }
        limits::bytes("initiator", &self.initiator_json(), limits::INITIATOR_BYTES)?;
        if let Some(metadata) = &self.metadata {
            limits::bytes("metadata", metadata, limits::METADATA_BYTES)?;
            limits::json_depth("metadata", metadata)?;
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(metadata)
                .map_err(|_| Error::invalid("metadata", "must be a JSON object".into()))?;
        }
        match self.max_attempts {
            Some(n) if n == 0 || n > limits::MAX_ATTEMPTS_CEILING => {
                Err(Error::invalid("maxAttempts", format!("must be 1 to {}, is {n}", limits::MAX_ATTEMPTS_CEILING)))
            }
            _ => Ok(()),
        }
    }

    /// The shard of this event's deliveries.
    pub fn shard(&self) -> u8 {
        shard::shard_of(self.key.as_deref(), self.event_id.as_str())
    }

    /// Whether the payload is JSON, so that it can be shown and sent as such.
    pub fn is_json(&self) -> bool {
        let essence = self.payload_type.split(';').next().unwrap_or_default().trim();
        self.payload_encoding == Encoding::Plain && (essence == JSON || essence.ends_with("+json"))
    }

    /// Whether the other envelope states the same fact. Writer, time and trace may differ, for example when a
    /// callback arrives twice.
    pub fn same_content(&self, other: &Self) -> bool {
        fn content(e: &Envelope) -> impl PartialEq + '_ {
            (
                (&e.topic, &e.key, &e.payload, &e.payload_type, e.payload_encoding, &e.aggregate),
                (&e.tenant_id, &e.store_id, &e.exchange, &e.routing_key),
            )
        }
        content(self) == content(other)
    }

    /// The message for a broker or a webhook: the envelope, and when it was sent.
    #[cfg(any(feature = "rabbitmq", feature = "webhook"))]
    pub(crate) fn message(&self, sent_at: OffsetDateTime) -> Result<Vec<u8>> {
        // Enough for most events beside their payload.
        let mut message = Vec::with_capacity(self.payload.len() + 512);
        serde_json::to_writer(&mut message, self).map_err(Error::Encode)?;
        // Removes `}`: the envelope is an object with members.
        message.pop();
        message.extend_from_slice(b",\"sentAt\":\"");
        // Cannot fail: RFC 3339 covers all times of these years.
        let _ = sent_at.format_into(&mut message, &time::format_description::well_known::Rfc3339);
        message.extend_from_slice(b"\"}");
        Ok(message)
    }

    /// The initiator as it is stored; an empty text if all fields are empty.
    pub(crate) fn initiator_json(&self) -> String {
        if self.initiator.is_empty() {
            return String::new();
        }
        serde_json::to_string(&self.initiator).unwrap_or_default()
    }
}

/// Truncates to milliseconds in UTC, the finest that every store keeps.
pub(crate) fn trim(time: OffsetDateTime) -> OffsetDateTime {
    let utc = time.to_offset(time::UtcOffset::UTC);
    utc.replace_millisecond(utc.millisecond()).unwrap_or(utc)
}

/// The JSON form of the envelope, with the names of the HTTP API, for reading.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    event_id: String,
    topic: String,
    payload: Box<RawValue>,
    payload_type: Option<String>,
    payload_encoding: Option<String>,
    trace_id: Option<String>,
    span_id: Option<String>,
    parent_event_id: Option<String>,
    #[serde(default)]
    initiator: Initiator,
    #[serde(with = "time::serde::rfc3339")]
    occurred_at: OffsetDateTime,
    #[serde(default, with = "time::serde::rfc3339::option")]
    expire_at: Option<OffsetDateTime>,
    #[serde(default, with = "time::serde::rfc3339::option")]
    deliver_at: Option<OffsetDateTime>,
    key: Option<String>,
    tenant_id: Option<String>,
    store_id: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    metadata: Option<Box<RawValue>>,
    max_attempts: Option<u32>,
    exchange: Option<String>,
    routing_key: Option<String>,
}

impl Serialize for Envelope {
    /// Runs for every event that goes to a broker, so it copies nothing.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        use serde::ser::{Error as _, SerializeMap as _};

        /// A time as RFC 3339.
        #[derive(Serialize)]
        #[serde(transparent)]
        struct Time(#[serde(with = "time::serde::rfc3339")] OffsetDateTime);

        fn write_entry<M: serde::ser::SerializeMap>(
            map: &mut M,
            name: &'static str,
            value: Option<impl Serialize>,
        ) -> std::result::Result<(), M::Error> {
            value.map_or(Ok(()), |value| map.serialize_entry(name, &value))
        }

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("eventId", self.event_id.as_str())?;
        map.serialize_entry("topic", &self.topic)?;
        // Plain SQL is not checked: a payload that is declared as JSON but is not is sent as a string.
        match self.is_json().then(|| serde_json::from_str::<&RawValue>(&self.payload)) {
            Some(Ok(json)) => map.serialize_entry("payload", json)?,
            _ => map.serialize_entry("payload", &self.payload)?,
        }
        map.serialize_entry("payloadType", &self.payload_type)?;
        write_entry(&mut map, "payloadEncoding", (self.payload_encoding == Encoding::Base64).then_some("base64"))?;
        write_entry(&mut map, "traceId", self.trace_id.as_deref())?;
        write_entry(&mut map, "spanId", self.span_id.as_deref())?;
        write_entry(&mut map, "parentEventId", self.parent_event_id.as_ref().map(EventId::as_str))?;
        write_entry(&mut map, "initiator", (!self.initiator.is_empty()).then_some(&self.initiator))?;
        map.serialize_entry("occurredAt", &Time(self.occurred_at))?;
        write_entry(&mut map, "expireAt", self.expire_at.map(Time))?;
        write_entry(&mut map, "deliverAt", self.deliver_at.map(Time))?;
        write_entry(&mut map, "key", self.key.as_deref())?;
        write_entry(&mut map, "tenantId", self.tenant_id.as_deref())?;
        write_entry(&mut map, "storeId", self.store_id.as_deref())?;
        write_entry(&mut map, "aggregateType", self.aggregate.as_ref().map(|aggregate| &aggregate.kind))?;
        write_entry(&mut map, "aggregateId", self.aggregate.as_ref().map(|aggregate| &aggregate.id))?;
        let metadata = self.metadata.as_deref().map(serde_json::from_str::<&RawValue>).transpose();
        write_entry(&mut map, "metadata", metadata.map_err(S::Error::custom)?)?;
        write_entry(&mut map, "maxAttempts", self.max_attempts)?;
        write_entry(&mut map, "exchange", self.exchange.as_deref())?;
        write_entry(&mut map, "routingKey", self.routing_key.as_deref())?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        use serde::de::Error as _;
        let wire = Wire::deserialize(deserializer)?;
        let payload_type = wire.payload_type.map_or(JSON.into(), Into::into);
        let payload_encoding = match wire.payload_encoding.as_deref() {
            None => Encoding::Plain,
            Some("base64") => Encoding::Base64,
            Some(other) => {
                return Err(D::Error::custom(format!("payloadEncoding must be \"base64\" or absent, not {other:?}")));
            }
        };
        let mut envelope = Self {
            event_id: EventId::new(wire.event_id).map_err(D::Error::custom)?,
            topic: wire.topic,
            key: wire.key,
            payload: String::new(),
            payload_type,
            payload_encoding,
            trace_id: wire.trace_id,
            span_id: wire.span_id,
            parent_event_id: wire.parent_event_id.map(EventId::new).transpose().map_err(D::Error::custom)?,
            aggregate: match (wire.aggregate_type, wire.aggregate_id) {
                (None, None) => None,
                (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
                _ => return Err(D::Error::custom("aggregateType and aggregateId go together")),
            },
            tenant_id: wire.tenant_id,
            store_id: wire.store_id,
            initiator: wire.initiator,
            metadata: wire.metadata.map(|m| m.get().into()),
            cloud_event_id: None,
            occurred_at: trim(wire.occurred_at),
            expire_at: wire.expire_at.map(trim),
            deliver_at: wire.deliver_at.map(trim),
            max_attempts: wire.max_attempts,
            exchange: wire.exchange,
            routing_key: wire.routing_key,
        };
        envelope.fill_cloud_event_id();
        envelope.payload = if envelope.is_json() {
            wire.payload.get().into()
        } else {
            serde_json::from_str(wire.payload.get())
                .map_err(|_| D::Error::custom("payload must be a string where payloadType is not JSON"))?
        };
        Ok(envelope)
    }
}

#[cfg(test)]
mod tests;
