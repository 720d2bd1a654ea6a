//! W3C trace context: the `traceparent` header in and out, and fresh ids.

use uuid::Uuid;

/// A position in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// 32 lower-case hexadecimal digits, not all zero.
    pub trace_id: String,
    /// 16 lower-case hexadecimal digits, not all zero.
    pub span_id: String,
}

impl TraceContext {
    /// The start of a new trace.
    pub fn fresh() -> Self {
        Self { trace_id: Uuid::new_v4().simple().to_string(), span_id: fresh_span_id() }
    }

    /// Reads a `traceparent` header. Returns `None` if it is invalid; the standard then asks for a new trace.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace_id, span_id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Version 00 has exactly these parts; a later version may add some; ff is forbidden.
        if !is_hex(version, 2) || version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let valid = is_id(trace_id, 32) && is_id(span_id, 16) && is_hex(flags, 2);
        valid.then(|| Self { trace_id: trace_id.into(), span_id: span_id.into() })
    }
}

/// The `traceparent` header for any ids (plain SQL is not checked). Returns `None` if they are invalid.
pub fn traceparent(trace_id: &str, span_id: &str) -> Option<String> {
    (is_id(trace_id, 32) && is_id(span_id, 16)).then(|| format!("00-{trace_id}-{span_id}-01"))
}

/// A new span id: 16 hexadecimal digits.
pub fn fresh_span_id() -> String {
    // A version-4 UUID has fixed bits in its middle, so its first half is never zero.
    Uuid::new_v4().simple().encode_lower(&mut Uuid::encode_buffer())[..16].to_owned()
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_id(text: &str, digits: usize) -> bool {
    is_hex(text, digits) && text.bytes().any(|b| b != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_as_it_went_out() {
        let context = TraceContext::fresh();
        let header = traceparent(&context.trace_id, &context.span_id).expect("is a trace");
        assert_eq!(TraceContext::parse(&header), Some(context));
    }

    #[test]
    fn what_is_no_header_starts_a_new_trace() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        assert!(TraceContext::parse(&format!("00-{trace}-{span}-01")).is_some());
        assert!(TraceContext::parse(&format!("01-{trace}-{span}-01-extra")).is_some(), "a later version may add parts");
        for bad in [
            String::new(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-extra"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-{span}"),
        ] {
            assert_eq!(TraceContext::parse(&bad), None, "{bad}");
        }
    }
}
