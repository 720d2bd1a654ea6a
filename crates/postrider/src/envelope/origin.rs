//! Where a CloudEvent came from. Two sources may use one id, so the event has an id of its own, made from both; what the
//! CloudEvent contains and the envelope has no field for is kept in its metadata, under `cloudEvent`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha1::{Digest, Sha1};
use uuid::{Builder, Uuid};

use super::Envelope;
use crate::error::{Error, Result};
use crate::event::EventId;

/// The key in the metadata.
const KEY: &str = "cloudEvent";

/// What a CloudEvent contains beside the fields of an envelope.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Origin {
    /// Its id, unique for its source only.
    pub(crate) id: String,
    /// Its source.
    pub(crate) source: String,
    /// Its subject, if the aggregate does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    /// The schema of its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dataschema: Option<String>,
    /// Its other attributes, as they were written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) extensions: BTreeMap<String, Box<RawValue>>,
}

/// The id of the event for a CloudEvent: the UUIDv5 of its id, in the namespace that is the UUIDv5 of its source in the
/// namespace of URLs. The same CloudEvent is always the same event.
pub fn event_id(source: &str, id: &str) -> EventId {
    let name = |namespace: Uuid, text: &str| {
        let hash = Sha1::new().chain_update(namespace).chain_update(text).finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        Builder::from_sha1_bytes(bytes).into_uuid()
    };
    EventId::stored(name(name(Uuid::NAMESPACE_URL, source), id).to_string())
}

impl Origin {
    /// The origin in this metadata.
    pub(crate) fn of(metadata: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Has {
            #[serde(rename = "cloudEvent")]
            origin: Option<Origin>,
        }
        // Most metadata has none, and a search is much faster than a parser. A list would fill the fields in their order.
        let is_named = metadata.contains(KEY) && metadata.trim_start().starts_with('{');
        if is_named { serde_json::from_str::<Has>(metadata).ok()?.origin } else { None }
    }

    /// Metadata with this origin in it. The text of the object stays as it is.
    pub(crate) fn put_into(&self, metadata: Option<&str>) -> Result<Box<str>> {
        let own = serde_json::to_string(self).map_err(Error::Encode)?;
        let Some(metadata) = metadata else { return Ok(format!(r#"{{"{KEY}":{own}}}"#).into()) };
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(metadata).map_err(|_| Error::invalid("metadata", "must be a JSON object".into()))?;
        if object.contains_key(KEY) {
            return Err(Error::invalid("metadata", format!("must not have {KEY}: it is written from the CloudEvent")));
        }
        let rest = metadata.trim_start().trim_start_matches('{');
        let comma = if object.is_empty() { "" } else { "," };
        Ok(format!(r#"{{"{KEY}":{own}{comma}{rest}"#).into())
    }

    /// The metadata without its origin; `None` if nothing else is in it.
    pub(crate) fn taken_from(metadata: &str) -> Option<String> {
        let mut object: BTreeMap<&str, &RawValue> = serde_json::from_str(metadata).ok()?;
        let origin = object.remove(KEY)?;
        if object.is_empty() {
            return None;
        }
        // As `put_into` writes it; anything else loses only its spaces and order.
        let written = format!(r#"{{"{KEY}":{origin},"#);
        match metadata.strip_prefix(&written) {
            Some(rest) => Some(format!("{{{rest}")),
            None => serde_json::to_string(&object).ok(),
        }
    }
}

impl Envelope {
    /// Reads the id at its source from the metadata.
    pub(crate) fn fill_cloud_event_id(&mut self) {
        self.cloud_event_id = self.metadata.as_deref().and_then(Origin::of).map(|origin| origin.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F63: the id is the one that any UUID library computes.
    #[test]
    fn an_id_is_of_its_source_and_the_same_everywhere() {
        // Python: uuid5(uuid5(NAMESPACE_URL, "/shop"), "1")
        assert_eq!(event_id("/shop", "1").as_str(), "cd4365dc-bc5b-57bd-a72b-5492df1b809a");
        assert_ne!(event_id("/shop", "1"), event_id("/bank", "1"));
        assert_ne!(event_id("/a", "b1"), event_id("/ab", "1"));
    }

    #[test]
    fn the_origin_joins_the_metadata_and_leaves_it_again() {
        let origin = Origin {
            id: "1".into(),
            source: "/s".into(),
            subject: None,
            dataschema: None,
            extensions: BTreeMap::default(),
        };
        for metadata in [r#"{"b": 1.0, "a":{}}"#, r#"{"z":[1, 2]}"#] {
            let joined = origin.put_into(Some(metadata)).expect("an object");
            assert_eq!(Origin::of(&joined).expect("it is there").id, "1");
            assert_eq!(Origin::taken_from(&joined).as_deref(), Some(metadata));
            assert!(origin.put_into(Some(&joined)).is_err(), "once");
        }
        assert_eq!(Origin::taken_from(&origin.put_into(None).expect("none")), None);
        assert!(Origin::of(r#"["cloudEvent"]"#).is_none() && Origin::of(r#"{"cloudEvent":7}"#).is_none());
    }
}
