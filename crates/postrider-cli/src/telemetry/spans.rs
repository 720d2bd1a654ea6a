//! From the program's spans to those of OpenTelemetry. A span whose fields name a trace belongs to that trace, below the
//! span that they name: so what is exported of an event is in the event's own trace. Other spans belong to their parent.
//!
//! Ours, because tracing-opentelemetry takes a foreign parent only from the code that opens a span (the library depends on
//! `tracing` alone), and exports every field, where this exports a list of known ones.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, IdGenerator as _, RandomIdGenerator, Sampler, SamplingDecision, ShouldSample as _, SpanData,
    SpanEvents, SpanLinks, SpanProcessor as _,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// The kinds of this program's spans, by name.
const KINDS: [(&str, SpanKind); 3] =
    [("request", SpanKind::Server), ("publish", SpanKind::Producer), ("deliver", SpanKind::Consumer)];

/// Fields of our spans, and what OpenTelemetry calls them. No other field is exported.
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

/// Passes spans on as they end.
pub(super) struct SpanLayer {
    processor: Arc<BatchSpanProcessor>,
    /// Decides by the trace's id alone, so that every process decides the same.
    sampler: Sampler,
    ids: RandomIdGenerator,
    scope: InstrumentationScope,
}

impl SpanLayer {
    pub(super) fn new(processor: Arc<BatchSpanProcessor>, sampler: Sampler) -> Self {
        let scope = InstrumentationScope::builder("postrider").with_version(env!("CARGO_PKG_VERSION")).build();
        Self { processor, sampler, ids: RandomIdGenerator::default(), scope }
    }

    fn is_sampled(&self, span: &SpanData) -> bool {
        let trace = span.span_context.trace_id();
        let sampled = self.sampler.should_sample(None, trace, &span.name, &span.span_kind, &[], &[]);
        sampled.decision == SamplingDecision::RecordAndSample
    }
}

impl<S> Layer<S> for SpanLayer
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let parent = span.parent().and_then(|parent| Some(parent.extensions().get::<SpanData>()?.span_context.clone()));
        let mut links = SpanLinks::default();
        let (trace_id, parent_span_id) = match (fields.trace_id, parent) {
            (Some(trace), parent) => {
                links.links.extend(parent.filter(|parent| parent.trace_id() != trace).map(Link::with_context));
                (trace, fields.parent_span_id.unwrap_or(SpanId::INVALID))
            }
            (None, Some(parent)) => (parent.trace_id(), parent.span_id()),
            (None, None) => (self.ids.new_trace_id(), SpanId::INVALID),
        };
        let (name, now) = (span.name(), SystemTime::now());
        let mut open = SpanData {
            span_context: SpanContext::new(
                trace_id,
                self.ids.new_span_id(),
                TraceFlags::SAMPLED,
                false,
                TraceState::default(),
            ),
            parent_span_id,
            parent_span_is_remote: false,
            span_kind: KINDS
                .iter()
                .find(|(known, _)| *known == name)
                .map_or(SpanKind::Internal, |(_, kind)| kind.clone()),
            name: name.into(),
            start_time: now,
            end_time: now,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links,
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        };
        fields.move_to(&mut open);
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        record.record(&mut fields);
        if let Some(open) = span.extensions_mut().get_mut::<SpanData>() {
            fields.move_to(open);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let closed = span.extensions_mut().remove::<SpanData>();
        if let Some(mut closed) = closed.filter(|closed| self.is_sampled(closed)) {
            closed.end_time = SystemTime::now();
            self.processor.on_end(closed);
        }
    }
}

/// The fields of a span, as they are read.
#[derive(Default)]
struct Fields {
    trace_id: Option<TraceId>,
    parent_span_id: Option<SpanId>,
    attributes: Vec<KeyValue>,
    failed: bool,
}

impl Fields {
    fn move_to(self, span: &mut SpanData) {
        span.attributes.extend(self.attributes);
        if self.failed {
            // Without the text of the error, which may quote a payload.
            span.status = Status::error("");
        }
    }

    fn push(&mut self, field: &Field, value: impl Into<Value>) {
        if let Some((_, name)) = ATTRIBUTES.iter().find(|(known, _)| *known == field.name()) {
            self.attributes.push(KeyValue::new(*name, value));
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, text: &str) {
        match field.name() {
            "trace_id" => self.trace_id = id_bytes(text).map(TraceId::from_bytes),
            "parent_span_id" => self.parent_span_id = id_bytes(text).map(SpanId::from_bytes),
            name => {
                self.failed |= name == "outcome" && text == "failed";
                self.push(field, text.to_owned());
            }
        }
    }

    fn record_u64(&mut self, field: &Field, number: u64) {
        self.failed |= field.name() == "status" && number >= 500;
        self.push(field, i64::try_from(number).unwrap_or(i64::MAX));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        if write!(text, "{value:?}").is_ok() {
            self.record_str(field, &text);
        }
    }
}

/// The bytes of an id of OpenTelemetry: `None` if it is another kind of id, or all zero, which stands for no id.
fn id_bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    bytes.iter().any(|byte| *byte != 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_other_kinds_are_none() {
        assert_eq!(id_bytes("00f067aa0ba902b7"), Some([0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]));
        for other in ["", "00f067aa0ba902b", "0000000000000000", "00f067aa0ba902bß", "+0f067aa0ba902b7"] {
            assert_eq!(id_bytes::<8>(other), None, "{other}");
        }
    }
}
