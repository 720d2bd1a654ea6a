//! An event as a message: the envelope as JSON, with headers for the broker and for other programs.

use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable};
use time::format_description::well_known::Rfc3339;

use crate::consumer::Failure;
use crate::envelope::Envelope;
use crate::envelope::origin::Origin;
use crate::envelope::trace::traceparent;
use crate::limits;

/// How often the message has been tried without success.
pub(super) const ATTEMPTS: &str = "x-postrider-attempts";
/// Why it failed last.
pub(super) const REASON: &str = "x-postrider-reason";
/// The code of the last failure.
pub(super) const CODE: &str = "x-postrider-code";
/// How often a quorum queue has delivered it without an answer. The broker counts.
const DELIVERY_COUNT: &str = "x-delivery-count";

const PERSISTENT: u8 = 2;

pub(super) fn properties(envelope: &Envelope) -> BasicProperties {
    let mut headers = FieldTable::default();
    let mut set_header = |name: &str, mut value: String| {
        // All headers share one frame, and a frame that is too large closes the connection. Plain SQL may have written a
        // longer text than the library allows; the body has all of it.
        value.truncate(value.floor_char_boundary(limits::INITIATOR_BYTES));
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    };
    if let (Some(trace), Some(span)) = (&envelope.trace_id, &envelope.span_id)
        && let Some(header) = traceparent(trace, span)
    {
        set_header("traceparent", header);
    }
    set_header("cloudEvents_specversion", "1.0".into());
    let origin = envelope.metadata.as_deref().and_then(Origin::of);
    let (id, source) = match &origin {
        Some(origin) => (origin.id.clone(), Some(origin.source.clone())),
        None => (envelope.event_id.to_string(), envelope.initiator.service.clone()),
    };
    set_header("cloudEvents_id", id);
    set_header("cloudEvents_type", envelope.topic.clone());
    set_header("cloudEvents_source", source.unwrap_or_else(|| "/".into()));
    set_header("cloudEvents_time", envelope.occurred_at.format(&Rfc3339).unwrap_or_default());
    let subject = origin.as_ref().and_then(|origin| origin.subject.clone());
    let aggregate = envelope.aggregate.as_ref().map(|aggregate| format!("{}/{}", aggregate.kind, aggregate.id));
    if let Some(subject) = subject.or(aggregate) {
        set_header("cloudEvents_subject", subject);
    }
    if let Some(Origin { dataschema, extensions, .. }) = origin {
        if let Some(dataschema) = dataschema {
            set_header("cloudEvents_dataschema", dataschema);
        }
        for (name, value) in extensions {
            // A text without its quotes, a number or a flag as it is written.
            let text = serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().into());
            set_header(&format!("cloudEvents_{name}"), text);
        }
    }
    BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_content_type("application/json".into())
        .with_message_id(envelope.event_id.as_str().into())
        .with_headers(headers)
}

/// A message that a queue has delivered.
pub(super) struct Message {
    pub(super) delivery: Delivery,
    /// Its event, or why it cannot be decoded.
    pub(super) envelope: std::result::Result<std::sync::Arc<Envelope>, Failure>,
}

impl Message {
    pub(super) fn of(delivery: Delivery) -> Self {
        let envelope = serde_json::from_slice::<Envelope>(&delivery.data)
            .map_err(|e| format!("{:?} error at line {} column {}", e.classify(), e.line(), e.column()))
            .and_then(|envelope| envelope.check().map(|()| envelope).map_err(|e| e.to_string()))
            .map(std::sync::Arc::new)
            .map_err(|why| Failure::reject(format!("the message is no event: {why}")).code("undecodable"));
        Self { delivery, envelope }
    }

    /// Which try comes now; the first is 1.
    pub(super) fn attempt(&self) -> u32 {
        u32::try_from(self.number(ATTEMPTS)).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// How often it was delivered to a receiver that did not answer.
    pub(super) fn unanswered_deliveries(&self) -> i64 {
        self.number(DELIVERY_COUNT)
    }

    pub(super) fn key(&self) -> Option<&str> {
        self.envelope.as_ref().ok()?.key.as_deref()
    }

    fn number(&self, header: &str) -> i64 {
        let headers = self.delivery.properties.headers().as_ref();
        match headers.and_then(|headers| headers.inner().get(header)) {
            Some(AMQPValue::LongLongInt(n)) => (*n).max(0),
            Some(AMQPValue::LongInt(n)) => i64::from(*n).max(0),
            Some(AMQPValue::LongUInt(n)) => i64::from(*n),
            _ => 0,
        }
    }

    /// Its properties for the next queue: those it came with, and what went wrong.
    pub(super) fn after(&self, failure: &Failure, attempts: u32) -> BasicProperties {
        let mut headers = self.delivery.properties.headers().clone().unwrap_or_default();
        let cause = failure.cause();
        headers.insert(ATTEMPTS.into(), AMQPValue::LongLongInt(attempts.into()));
        headers.insert(REASON.into(), AMQPValue::LongString(limits::error_text(&cause.message).into()));
        headers.insert(
            CODE.into(),
            AMQPValue::LongString(limits::error_code(cause.code.as_deref().unwrap_or_default()).into()),
        );
        self.delivery.properties.clone().with_delivery_mode(PERSISTENT).with_headers(headers)
    }
}
