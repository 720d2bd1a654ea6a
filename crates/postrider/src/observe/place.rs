//! The place of a span in a trace of OpenTelemetry. Only a layer of tracing-opentelemetry gives spans a place, and only the
//! feature `opentelemetry` asks it: without either, `place` is `None` and `set_parent` does nothing.

use tracing::Span;

use crate::envelope::Envelope;
use crate::envelope::trace::{TraceContext, traceparent};

/// Puts a new span below a span of any process. Does nothing for ids that are not W3C ids (plain SQL is not checked).
pub fn set_parent(span: &Span, trace_id: &str, span_id: &str) {
    otel::set_parent(span, trace_id, span_id);
}

/// Puts a new span below the span that wrote the event, unless the current span is in the event's trace already.
pub(crate) fn set_parent_of(span: &Span, envelope: &Envelope) {
    let (Some(trace_id), Some(span_id)) = (envelope.trace_id.as_deref(), envelope.span_id.as_deref()) else { return };
    if !is_current(trace_id) {
        set_parent(span, trace_id, span_id);
    }
}

/// Links a span with the spans that wrote the events: a span of many events has no single parent.
pub(crate) fn link<'a>(span: &Span, envelopes: impl Iterator<Item = &'a Envelope>) {
    for envelope in envelopes {
        if let (Some(trace_id), Some(span_id)) = (&envelope.trace_id, &envelope.span_id) {
            otel::link(span, trace_id, span_id);
        }
    }
}

/// The place of a span.
pub(crate) fn place(span: &Span) -> Option<TraceContext> {
    otel::place(span).map(|(context, _)| context)
}

/// Whether the current span is in this trace.
pub(crate) fn is_current(trace_id: &str) -> bool {
    place(&Span::current()).is_some_and(|place| place.trace_id == trace_id)
}

/// The `traceparent` header of a call that is made for an event. It names the current span; if that is in another trace or
/// has no place, the span that wrote the event.
pub(crate) fn header(envelope: &Envelope) -> Option<String> {
    let trace_id = envelope.trace_id.as_deref()?;
    match otel::place(&Span::current()) {
        Some((context, is_sampled)) if context.trace_id == trace_id => {
            let flags = if is_sampled { "01" } else { "00" };
            Some(format!("00-{trace_id}-{}-{flags}", context.span_id))
        }
        _ => traceparent(trace_id, envelope.span_id.as_deref()?),
    }
}

#[cfg(feature = "opentelemetry")]
mod otel {
    use opentelemetry::Context;
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    use crate::envelope::trace::TraceContext;

    /// An event does not store whether its trace is sampled. Samplers that decide by the trace's id need no more.
    fn context(trace_id: &str, span_id: &str) -> Option<SpanContext> {
        let (trace_id, span_id) = (TraceId::from_hex(trace_id).ok()?, SpanId::from_hex(span_id).ok()?);
        let context = SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, true, TraceState::default());
        context.is_valid().then_some(context)
    }

    pub(super) fn set_parent(span: &Span, trace_id: &str, span_id: &str) {
        if let Some(parent) = context(trace_id, span_id) {
            // An error means that no layer sees this span.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        }
    }

    pub(super) fn link(span: &Span, trace_id: &str, span_id: &str) {
        if let Some(cause) = context(trace_id, span_id) {
            span.add_link(cause);
        }
    }

    /// And whether it is sampled.
    pub(super) fn place(span: &Span) -> Option<(TraceContext, bool)> {
        let context = span.context();
        let context = context.span();
        let context = context.span_context();
        context.is_valid().then(|| {
            let place =
                TraceContext { trace_id: context.trace_id().to_string(), span_id: context.span_id().to_string() };
            (place, context.is_sampled())
        })
    }
}

#[cfg(not(feature = "opentelemetry"))]
mod otel {
    use tracing::Span;

    use crate::envelope::trace::TraceContext;

    pub(super) fn set_parent(_: &Span, _: &str, _: &str) {}

    pub(super) fn link(_: &Span, _: &str, _: &str) {}

    pub(super) fn place(_: &Span) -> Option<(TraceContext, bool)> {
        None
    }
}
