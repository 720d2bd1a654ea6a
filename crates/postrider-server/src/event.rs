//! Events as callers send them: as our own envelope, or as CloudEvents, structured or binary. All become a draft.

use axum::http::HeaderMap;
use base64::prelude::*;
use percent_encoding::percent_decode;
use postrider::envelope::cloudevents;
use postrider::envelope::{Encoding, Envelope, JSON, MetadataIds};
use postrider::{Aggregate, Draft, Initiator, Scope};
use serde::Deserialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::input::{self, Id, Raw, Time};
use crate::problem::Problem;

/// An event, with whatever there is to say beside its payload. What is missing is filled in.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewEvent)]
pub(crate) struct EventIn {
    /// Unique; a UUID where it is missing. The same id again is the same event.
    event_id: Option<Id>,
    /// What kind of fact this is.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    topic: String,
    /// The payload: JSON, or a string where `payloadType` is not JSON or `payloadEncoding` is given.
    payload: Raw,
    /// The media type of the payload; JSON where it is missing.
    payload_type: Option<String>,
    /// `base64` where the payload is bytes.
    payload_encoding: Option<PayloadEncoding>,
    /// The trace that it belongs to. Where it is missing: of the `traceparent` header, of `metadata.traceId`, of its parent, or new.
    trace_id: Option<String>,
    /// The span that wrote it.
    span_id: Option<String>,
    /// The event that caused it.
    parent_event_id: Option<Id>,
    /// Who caused it. Where they are missing: `metadata.userId` and `metadata.requestId`, the token's name, the route and the
    /// request's id.
    initiator: Option<InitiatorIn>,
    /// When it became true; now where it is missing.
    occurred_at: Option<Time>,
    /// After this it is no use to anyone.
    expire_at: Option<Time>,
    /// Not before this.
    deliver_at: Option<Time>,
    /// Events of one key reach a consumer one after the other.
    key: Option<Id>,
    /// Whose event it is.
    tenant_id: Option<Id>,
    /// Which store (shop, branch) it came from.
    store_id: Option<Id>,
    /// The kind of thing that it is about.
    aggregate_type: Option<String>,
    /// Which thing.
    aggregate_id: Option<Id>,
    /// Anything else, as an object.
    #[schema(value_type = Raw, required = false)]
    metadata: Option<Raw>,
    /// Attempts in all, where this event differs from others.
    max_attempts: Option<u32>,
    /// The broker's exchange, where it is not the usual one.
    exchange: Option<String>,
    /// The broker's routing key, where it is not the topic.
    routing_key: Option<String>,
}

/// How a payload that is not text is written as text.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PayloadEncoding {
    Base64,
}

/// Who or what caused an event.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewInitiator)]
pub(crate) struct InitiatorIn {
    service: Option<String>,
    operation: Option<String>,
    user_id: Option<Id>,
    client_request_id: Option<Id>,
}

/// Values of the request for fields that the event leaves out.
pub(crate) struct Around<'a> {
    pub(crate) initiator: Initiator,
    pub(crate) traceparent: Option<&'a str>,
}

impl EventIn {
    /// The event as a token with this scope may publish it. Under a scope of one tenant, an event that names none is of that tenant.
    pub(crate) fn within(mut self, scope: &Scope) -> Result<Self, Problem> {
        self.tenant_id = self.tenant_id.or_else(|| scope.only_tenant().map(|tenant| Id(tenant.into())));
        if scope.may_publish(&self.topic, self.tenant_id.as_ref().map(|tenant| tenant.0.as_str())) {
            return Ok(self);
        }
        Err(Problem::not_found("the topic or the tenant of the event is outside the token's scope"))
    }

    /// The event as the library takes it.
    pub(crate) fn into_draft(self, around: &Around<'_>) -> Result<Draft, Problem> {
        let payload_type = self.payload_type.unwrap_or_else(|| JSON.into());
        let raw = self.payload.0.get();
        let text = |what: &str| {
            serde_json::from_str::<String>(raw)
                .map_err(|_| Problem::invalid("payload", format!("must be a string {what}")))
        };
        let mut draft = match self.payload_encoding {
            Some(PayloadEncoding::Base64) => {
                let bytes = BASE64_STANDARD.decode(text("of base64")?);
                let bytes = bytes.map_err(|_| Problem::invalid("payload", "is no base64"))?;
                Draft::bytes(self.topic, payload_type, bytes)
            }
            None if is_json(&payload_type) => Draft::text(self.topic, payload_type, raw),
            None => Draft::text(self.topic, payload_type, text("where payloadType is not JSON")?),
        };
        let named = self.metadata.as_ref().map(|metadata| MetadataIds::of(metadata.0.get())).unwrap_or_default();
        draft = draft.initiator(initiator(self.initiator.unwrap_or_default(), named, &around.initiator));
        if let Some(id) = self.event_id {
            draft = draft.event_id(id.0);
        }
        if let Some(key) = self.key {
            draft = draft.key(key.0);
        }
        draft = match (self.aggregate_type, self.aggregate_id) {
            (None, None) => draft,
            (Some(kind), Some(id)) => draft.aggregate(Aggregate::new(kind, id.0)),
            (Some(_), None) => return Err(Problem::invalid("aggregateId", "is needed beside aggregateType")),
            (None, Some(_)) => return Err(Problem::invalid("aggregateType", "is needed beside aggregateId")),
        };
        if let Some(id) = self.tenant_id {
            draft = draft.tenant(id.0);
        }
        if let Some(id) = self.store_id {
            draft = draft.store(id.0);
        }
        draft = match (self.trace_id, around.traceparent) {
            (Some(trace), _) => draft.trace(trace, self.span_id),
            (None, Some(header)) => draft.traceparent(header),
            (None, None) => draft,
        };
        if let Some(id) = self.parent_event_id {
            draft = draft.parent(id.0);
        }
        if let Some(metadata) = self.metadata {
            draft = draft.metadata_json(metadata.0.get());
        }
        if let Some(at) = self.occurred_at {
            draft = draft.occurred_at(at.0);
        }
        if let Some(at) = self.deliver_at {
            draft = draft.deliver_at(at.0);
        }
        if let Some(at) = self.expire_at {
            draft = draft.expire_at(at.0);
        }
        if let Some(attempts) = self.max_attempts {
            draft = draft.max_attempts(attempts);
        }
        if let Some(exchange) = self.exchange {
            draft = draft.exchange(exchange);
        }
        if let Some(routing_key) = self.routing_key {
            draft = draft.routing_key(routing_key);
        }
        Ok(draft)
    }

    /// A structured CloudEvent.
    pub(crate) fn from_structured(json: &str) -> Result<Self, Problem> {
        // Parsed once for its syntax: a body that is no JSON gets another answer than one that is no CloudEvent.
        input::read::<serde::de::IgnoredAny>(json)?;
        Self::from_envelope(cloudevents::from_structured(json, OffsetDateTime::now_utc())?)
    }

    /// A binary CloudEvent: its attributes are headers, its data the body. It is put into the structured form, so that both
    /// are read in one place.
    pub(crate) fn from_binary(headers: &HeaderMap, body: &[u8]) -> Result<Self, Problem> {
        let mut event = serde_json::Map::new();
        for (name, value) in headers {
            if let Some(attribute) = name.as_str().strip_prefix("ce-") {
                let value = percent_decode(value.as_bytes()).decode_utf8();
                let value = value.map_err(|_| Problem::invalid(name.as_str(), "is not UTF-8"))?;
                event.insert(attribute.into(), value.into());
            }
        }
        let media_type = headers.get("content-type").and_then(|value| value.to_str().ok());
        if let Some(media_type) = media_type {
            event.insert("datacontenttype".into(), media_type.into());
        }
        let (name, data) = match (std::str::from_utf8(body), media_type) {
            _ if body.is_empty() => ("data", "null".into()),
            (Ok(text), Some(media_type)) if is_json(media_type) => {
                input::read::<serde::de::IgnoredAny>(text)?;
                ("data", text.to_owned())
            }
            (Ok(text), Some(media_type)) if media_type.starts_with("text/") => ("data", quoted(text)),
            _ => ("data_base64", quoted(&BASE64_STANDARD.encode(body))),
        };
        let mut text = serde_json::Value::Object(event).to_string();
        text.pop();
        Self::from_structured(&format!("{text},\"{name}\":{data}}}"))
    }

    fn from_envelope(envelope: Envelope) -> Result<Self, Problem> {
        let is_json = envelope.is_json();
        for (field, time) in [
            ("time", Some(envelope.occurred_at)),
            ("expiretime", envelope.expire_at),
            ("delivertime", envelope.deliver_at),
        ] {
            if time.is_some_and(|time| !(1970..=9998).contains(&time.year())) {
                return Err(Problem::invalid(field, "must be of the years 1970 to 9998"));
            }
        }
        let raw = |field: &'static str, json: String| {
            RawValue::from_string(json).map(Raw).map_err(|_| Problem::invalid(field, "is no JSON"))
        };
        let payload = if is_json { envelope.payload } else { quoted(&envelope.payload) };
        let (aggregate_type, aggregate_id) = envelope.aggregate.map(|a| (a.kind, Id(a.id))).unzip();
        Ok(Self {
            event_id: Some(Id(envelope.event_id.to_string())),
            topic: envelope.topic,
            payload: raw("data", payload)?,
            payload_type: Some(envelope.payload_type.into_owned()),
            payload_encoding: (envelope.payload_encoding == Encoding::Base64).then_some(PayloadEncoding::Base64),
            trace_id: envelope.trace_id,
            span_id: envelope.span_id,
            parent_event_id: envelope.parent_event_id.map(|id| Id(id.to_string())),
            initiator: Some(InitiatorIn {
                service: envelope.initiator.service,
                operation: envelope.initiator.operation,
                user_id: envelope.initiator.user_id.map(Id),
                client_request_id: envelope.initiator.client_request_id.map(Id),
            }),
            occurred_at: Some(Time(envelope.occurred_at)),
            expire_at: envelope.expire_at.map(Time),
            deliver_at: envelope.deliver_at.map(Time),
            key: envelope.key.map(Id),
            tenant_id: envelope.tenant_id.map(Id),
            store_id: envelope.store_id.map(Id),
            aggregate_type,
            aggregate_id,
            metadata: envelope.metadata.map(|m| raw("metadata", m.into())).transpose()?,
            max_attempts: envelope.max_attempts,
            exchange: envelope.exchange,
            routing_key: envelope.routing_key,
        })
    }
}

/// The event's own fields come first, then those that its metadata names, then those of the request.
fn initiator(given: InitiatorIn, named: MetadataIds, around: &Initiator) -> Initiator {
    let request_id = given.client_request_id.map(|id| id.0).or(named.request_id);
    Initiator {
        service: given.service.or_else(|| around.service.clone()),
        operation: given.operation.or_else(|| around.operation.clone()),
        user_id: given.user_id.map(|id| id.0).or(named.user_id),
        client_request_id: request_id.or_else(|| around.client_request_id.clone()),
        token_id: around.token_id.clone(),
    }
}

fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence == JSON || essence.ends_with("+json")
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
