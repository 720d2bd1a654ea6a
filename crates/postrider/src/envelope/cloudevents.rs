//! CloudEvents 1.0, structured JSON.
//!
//! `id` and `source` together are the event id ([`event_id`]), `type` the topic, `source` the initiating service (`/` if unknown), `subject` the aggregate
//! as `type/id`, `time` when it occurred. All other fields are extension attributes, whose names may have lower-case
//! letters and digits only.

use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::origin::Origin;
pub use super::origin::event_id;
use super::trace::{self, TraceContext};
use super::{Encoding, Envelope, JSON};
use crate::error::{Error, Result};
use crate::event::{Aggregate, EventId};

/// The media type of a structured event.
pub const STRUCTURED: &str = "application/cloudevents+json";

/// The envelope as one structured CloudEvent.
pub fn to_structured(envelope: &Envelope) -> Result<String> {
    let origin = envelope.metadata.as_deref().and_then(Origin::of);
    let metadata = match (&origin, &envelope.metadata) {
        (Some(_), Some(metadata)) => Origin::taken_from(metadata),
        (_, metadata) => metadata.as_ref().map(ToString::to_string),
    };
    let mut event = Map::new();
    // First, so that no extension takes the place of an attribute.
    for (name, value) in origin.iter().flat_map(|origin| &origin.extensions) {
        event.insert(name.clone(), serde_json::from_str(value.get()).map_err(Error::Encode)?);
    }
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            event.insert(name.into(), Value::String(value));
        }
    };
    let time = |time: OffsetDateTime| time.format(&Rfc3339).ok();
    put("specversion", Some("1.0".into()));
    put("id", Some(origin.as_ref().map_or_else(|| envelope.event_id.to_string(), |origin| origin.id.clone())));
    put("dataschema", origin.as_ref().and_then(|origin| origin.dataschema.clone()));
    put("type", Some(envelope.topic.clone()));
    put("source", Some(source(envelope, origin.as_ref())));
    let subject = origin.as_ref().and_then(|origin| origin.subject.clone());
    put("subject", subject.or_else(|| envelope.aggregate.as_ref().map(|a| format!("{}/{}", a.kind, a.id))));
    put("time", time(envelope.occurred_at));
    put("datacontenttype", Some(envelope.payload_type.to_string()));
    put("traceparent", traceparent(envelope));
    put("traceid", envelope.trace_id.clone());
    put("spanid", envelope.span_id.clone());
    put("parentid", envelope.parent_event_id.as_ref().map(ToString::to_string));
    put("partitionkey", envelope.key.clone());
    put("tenantid", envelope.tenant_id.clone());
    put("storeid", envelope.store_id.clone());
    put("operation", envelope.initiator.operation.clone());
    put("userid", envelope.initiator.user_id.clone());
    put("requestid", envelope.initiator.client_request_id.clone());
    put("expiretime", envelope.expire_at.and_then(time));
    put("delivertime", envelope.deliver_at.and_then(time));
    put("maxattempts", envelope.max_attempts.map(|n| n.to_string()));
    put("exchange", envelope.exchange.clone());
    put("routingkey", envelope.routing_key.clone());
    put("metadata", metadata);
    let mut text = serde_json::to_string(&event).map_err(Error::Encode)?;
    // The payload is copied as text: parsing it would change its numbers.
    let is_json = envelope.is_json() && serde_json::from_str::<serde::de::IgnoredAny>(&envelope.payload).is_ok();
    let (name, data) = match (envelope.payload_encoding, is_json) {
        (Encoding::Base64, _) => ("data_base64", serde_json::to_string(&envelope.payload).map_err(Error::Encode)?),
        (Encoding::Plain, true) => ("data", envelope.payload.clone()),
        (Encoding::Plain, false) => ("data", serde_json::to_string(&envelope.payload).map_err(Error::Encode)?),
    };
    text.pop();
    Ok(format!("{text},\"{name}\":{data}}}"))
}

/// Reads a structured CloudEvent. `now` is used if it has no time.
pub fn from_structured(json: &str, now: OffsetDateTime) -> Result<Envelope> {
    let unreadable = |e: serde_json::Error| Error::invalid("body", format!("is no structured CloudEvent: {e}"));
    crate::limits::json_depth("body", json)?;
    let mut event: std::collections::BTreeMap<String, Box<serde_json::value::RawValue>> =
        serde_json::from_str(json).map_err(unreadable)?;
    let data = event.remove("data");
    let data_base64 = event.remove("data_base64");
    let mut take = |name: &str| attribute(event.remove(name)?.get());

    match take("specversion").as_deref() {
        Some("1.0") => {}
        other => {
            return Err(Error::invalid("specversion", format!("must be \"1.0\", is {other:?}")));
        }
    }
    let required =
        |field: &'static str, value: Option<String>| value.ok_or_else(|| Error::invalid(field, "is missing".into()));
    let id = required("id", take("id"))?;
    let topic = required("type", take("type"))?;
    let source = required("source", take("source"))?;

    if id.is_empty() || source.is_empty() {
        return Err(Error::invalid(if id.is_empty() { "id" } else { "source" }, "must not be empty".into()));
    }
    let mut envelope =
        Envelope::new(event_id(&source, &id), topic, String::new(), time("time", take("time"))?.unwrap_or(now));
    envelope.payload_type = take("datacontenttype").map_or(JSON.into(), Into::into);
    envelope.initiator.service = (source != "/").then(|| source.clone());
    let subject = take("subject");
    envelope.aggregate = subject.as_deref().map(|subject| match subject.split_once('/') {
        Some((kind, id)) => Aggregate::new(kind, id),
        None => Aggregate::new("subject", subject),
    });
    let context = take("traceparent").as_deref().and_then(TraceContext::parse);
    let (trace, span) = context.map(|c| (c.trace_id, c.span_id)).unzip();
    envelope.trace_id = take("traceid").or(trace);
    envelope.span_id = take("spanid").or(span);
    envelope.parent_event_id = take("parentid").map(EventId::new).transpose()?;
    envelope.key = take("partitionkey");
    envelope.tenant_id = take("tenantid");
    envelope.store_id = take("storeid");
    envelope.initiator.operation = take("operation");
    envelope.initiator.user_id = take("userid");
    envelope.initiator.client_request_id = take("requestid");
    envelope.expire_at = time("expiretime", take("expiretime"))?;
    envelope.deliver_at = time("delivertime", take("delivertime"))?;
    envelope.max_attempts = take("maxattempts")
        .map(|n| n.parse().map_err(|_| Error::invalid("maxattempts", format!("must be a number, is {n:?}"))))
        .transpose()?;
    envelope.exchange = take("exchange");
    envelope.routing_key = take("routingkey");
    let (metadata, dataschema) = (take("metadata"), take("dataschema"));
    // What is left are attributes that the envelope has no field for. An absent one may be written as null.
    event.retain(|_, value| value.get() != "null");
    let subject = subject.filter(|subject| !subject.contains('/'));
    let origin = Origin { id, source, subject, dataschema, extensions: event };
    envelope.metadata = Some(origin.put_into(metadata.as_deref())?);
    envelope.cloud_event_id = Some(origin.id);
    match (data, data_base64) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("data", "and data_base64 exclude each other".into()));
        }
        (None, Some(base64)) => {
            envelope.payload_encoding = Encoding::Base64;
            envelope.payload = serde_json::from_str(base64.get()).map_err(unreadable)?;
        }
        (Some(data), None) if envelope.is_json() => envelope.payload = data.get().into(),
        (Some(data), None) => {
            envelope.payload = serde_json::from_str(data.get())
                .map_err(|_| Error::invalid("data", "must be a string where datacontenttype is not JSON".into()))?;
        }
        (None, None) => envelope.payload = "null".into(),
    }
    Ok(envelope)
}

/// The source: of the CloudEvent that it came as, or the service that wrote it.
fn source(envelope: &Envelope, origin: Option<&Origin>) -> String {
    let own = origin.map(|origin| origin.source.clone()).or_else(|| envelope.initiator.service.clone());
    own.unwrap_or_else(|| "/".into())
}

fn traceparent(envelope: &Envelope) -> Option<String> {
    trace::traceparent(envelope.trace_id.as_deref()?, envelope.span_id.as_deref()?)
}

/// An attribute as text: strings as they are, numbers and booleans as written, null as absent.
fn attribute(raw: &str) -> Option<String> {
    match raw {
        "null" => None,
        quoted if quoted.starts_with('"') => serde_json::from_str(quoted).ok(),
        other => Some(other.into()),
    }
}

fn time(field: &'static str, text: Option<String>) -> Result<Option<OffsetDateTime>> {
    text.map(|text| {
        OffsetDateTime::parse(&text, &Rfc3339)
            .map(super::trim)
            .map_err(|_| Error::invalid(field, format!("must be an RFC 3339 time, is {text:?}")))
    })
    .transpose()
}
