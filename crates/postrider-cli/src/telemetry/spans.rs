//! From the program's spans to those of OpenTelemetry. A span that names a trace belongs to it, under the span that it names:
//! so what is exported of an event is in the event's own trace. One that names none belongs to the span around it.

use std::fmt::{Debug, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;
use uuid::Uuid;

use super::export::Queue;

/// Of the spans of this program, by name: what they are. A field that is not in [`ATTRIBUTES`] is not exported.
const KINDS: [(&str, SpanKind); 3] =
    [("request", SpanKind::Server), ("publish", SpanKind::Producer), ("deliver", SpanKind::Consumer)];

/// Fields of our spans, and what OpenTelemetry calls them.
const ATTRIBUTES: [(&str, &str); 9] = [
    ("event_id", "messaging.message.id"),
    ("topic", "messaging.destination.name"),
    ("consumer", "messaging.consumer.group.name"),
    ("attempt", "postrider.attempt"),
    ("outcome", "postrider.outcome"),
    ("code", "error.type"),
    ("method", "http.request.method"),
    ("route", "http.route"),
    ("status", "http.response.status_code"),
];

/// Takes spans as they end.
pub(super) struct Taking {
    pub(super) queue: Queue,
    /// Of so many traces, by their ids: 0 none, `u64::MAX` all.
    pub(super) below: u64,
}

/// What the fields of a span say.
#[derive(Default)]
struct Said {
    trace_id: Option<Vec<u8>>,
    parent_span_id: Option<Vec<u8>>,
    attributes: Vec<KeyValue>,
    failed: bool,
}

impl<S> Layer<S> for Taking
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut said = Said::default();
        attributes.record(&mut said);
        let name = span.name();
        let mut open = Span {
            name: name.into(),
            kind: KINDS.iter().find(|(known, _)| *known == name).map_or(SpanKind::Internal, |(_, kind)| *kind).into(),
            span_id: Uuid::new_v4().as_bytes()[..8].to_vec(),
            start_time_unix_nano: now(),
            ..Span::default()
        };
        let around = span.parent().and_then(|parent| {
            let extensions = parent.extensions();
            extensions.get::<Span>().map(|around| (around.trace_id.clone(), around.span_id.clone()))
        });
        match (said.trace_id.take(), around) {
            (Some(trace), around) => {
                if let Some((trace_id, span_id)) = around.filter(|(around, _)| *around != trace) {
                    open.links.push(Link { trace_id, span_id, ..Link::default() });
                }
                (open.trace_id, open.parent_span_id) = (trace, said.parent_span_id.take().unwrap_or_default());
            }
            (None, Some((trace, parent))) => (open.trace_id, open.parent_span_id) = (trace, parent),
            (None, None) => open.trace_id = Uuid::new_v4().as_bytes().to_vec(),
        }
        said.into_span(&mut open);
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut said = Said::default();
        record.record(&mut said);
        if let Some(open) = span.extensions_mut().get_mut::<Span>() {
            said.into_span(open);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let closed = span.extensions_mut().remove::<Span>();
        if let Some(mut closed) = closed.filter(|closed| is_sampled(&closed.trace_id, self.below)) {
            closed.end_time_unix_nano = now();
            self.queue.put(closed);
        }
    }
}

impl Said {
    fn into_span(self, span: &mut Span) {
        span.attributes.extend(self.attributes);
        if self.failed {
            // The text of an error may say what was in a payload.
            span.status = Some(Status { code: StatusCode::Error.into(), ..Status::default() });
        }
    }

    fn say(&mut self, field: &Field, value: Value) {
        if let Some((_, name)) = ATTRIBUTES.iter().find(|(known, _)| *known == field.name()) {
            self.attributes.push(attribute(name, value));
        }
    }
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, text: &str) {
        match field.name() {
            "trace_id" => self.trace_id = bytes(text, 16),
            "parent_span_id" => self.parent_span_id = bytes(text, 8),
            _ => {
                self.failed |= field.name() == "outcome" && text == "failed";
                self.say(field, Value::StringValue(text.into()));
            }
        }
    }

    fn record_u64(&mut self, field: &Field, number: u64) {
        self.failed |= field.name() == "status" && number >= 500;
        self.say(field, Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        if write!(text, "{value:?}").is_ok() {
            self.record_str(field, &text);
        }
    }
}

pub(super) fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// The bytes of an id of OpenTelemetry. None: it is another kind of id, or is all zero, which stands for none.
fn bytes(text: &str, length: usize) -> Option<Vec<u8>> {
    if text.len() != 2 * length || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    let bytes: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect::<Option<_>>()?;
    bytes.iter().any(|byte| *byte != 0).then_some(bytes)
}

/// Whether a trace is exported: decided by its id alone, so that every process decides the same.
fn is_sampled(trace: &[u8], below: u64) -> bool {
    let mut last = [0; 8];
    if let Some(tail) = trace.last_chunk::<8>() {
        last = *tail;
    }
    below == u64::MAX || u64::from_be_bytes(last) < below
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_other_kinds_are_none() {
        assert_eq!(bytes("00f067aa0ba902b7", 8), Some(vec![0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]));
        for other in ["", "00f067aa0ba902b", "0000000000000000", "00f067aa0ba902bß", "+0f067aa0ba902b7"] {
            assert_eq!(bytes(other, 8), None, "{other}");
        }
    }

    #[test]
    fn a_share_of_traces_is_sampled_by_id() {
        let trace = |last: u64| [[7; 8], last.to_be_bytes()].concat();
        assert!(is_sampled(&trace(u64::MAX), u64::MAX) && !is_sampled(&trace(0), 0));
        assert!(is_sampled(&trace(1), 2) && !is_sampled(&trace(2), 2));
    }
}
