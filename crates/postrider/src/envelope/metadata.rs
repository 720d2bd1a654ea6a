//! Ids in the metadata. A producer that fills in `metadata` alone may name `traceId`, `requestId` and `userId` there; they
//! count where the envelope's own fields are empty.

use serde::{Deserialize, Deserializer};

use super::Envelope;
use crate::limits;

/// The ids that metadata may name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataIds {
    /// The trace.
    #[serde(deserialize_with = "label")]
    pub trace_id: Option<String>,
    /// The client's request.
    #[serde(deserialize_with = "label")]
    pub request_id: Option<String>,
    /// The user.
    #[serde(deserialize_with = "label")]
    pub user_id: Option<String>,
}

impl MetadataIds {
    /// Reads them. Plain SQL may have written anything: what is no JSON object names nothing.
    pub fn of(metadata: &str) -> Self {
        // Most metadata names none of them, and a search is much faster than a parser.
        let named = ["\"traceId\"", "\"requestId\"", "\"userId\""].iter().any(|name| metadata.contains(name));
        // A list would fill the fields in their order.
        let is_object = metadata.trim_start().starts_with('{');
        if named && is_object { serde_json::from_str(metadata).unwrap_or_default() } else { Self::default() }
    }
}

impl Envelope {
    /// Fills empty fields from the metadata, of an event that was read from a store.
    pub(crate) fn fill_from_metadata(&mut self) {
        self.fill_cloud_event_id();
        let Some(metadata) = &self.metadata else { return };
        let is_empty = |field: &Option<String>| field.as_deref().is_none_or(str::is_empty);
        let initiator = &mut self.initiator;
        if !is_empty(&self.trace_id) && !is_empty(&initiator.client_request_id) && !is_empty(&initiator.user_id) {
            return;
        }
        let ids = MetadataIds::of(metadata);
        for (field, id) in [
            (&mut self.trace_id, ids.trace_id),
            (&mut initiator.client_request_id, ids.request_id),
            (&mut initiator.user_id, ids.user_id),
        ] {
            if is_empty(field) && id.is_some() {
                *field = id;
            }
        }
    }
}

/// Text or a number. Anything that the envelope's own field could not hold is left out.
fn label<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => text,
        serde_json::Value::Number(number) => number.to_string(),
        _ => return Ok(None),
    };
    Ok(limits::text("metadata", &text, limits::LABEL_CHARS).is_ok().then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_id_is_left_out() {
        let ids = MetadataIds::of(r#"{"traceId": "t", "userId": 42, "requestId": {"traceId": "x"}, "more": [1]}"#);
        assert_eq!(ids, MetadataIds { trace_id: Some("t".into()), request_id: None, user_id: Some("42".into()) });
        for odd in ["", "no json: \"traceId\"", r#"["traceId"]"#, r#"{"traceId": ""}"#, r#"{"traceId": null}"#] {
            assert_eq!(MetadataIds::of(odd), MetadataIds::default(), "{odd}");
        }
        let long = format!(r#"{{"traceId": "{}"}}"#, "x".repeat(limits::LABEL_CHARS + 1));
        assert_eq!(MetadataIds::of(&long), MetadataIds::default());
    }
}
