//! Whether readers of JSON can read a payload. A parser that skips values accepts more than one that keeps them: half of
//! a character pair (`"\ud800"`), a number that no float holds (`1e999`), a thousand levels of brackets. What is passed on
//! as it is must be readable by the strict ones too, or one event stops a reader that gets it together with others.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Envelope;
use crate::consumer::Failure;
use crate::limits;

/// The code of a delivery that is buried because no reader could read its event.
pub const UNREADABLE: &str = "unreadable";

/// What stops readers of this JSON; `None` if nothing does, also for a text that is no JSON at all: it is passed on as a
/// string. Only the kind of the fault and its place are in the answer: payloads are not logged.
pub fn unreadable(json: &str) -> Option<String> {
    if limits::json_depth("payload", json).is_err() {
        return Some(format!("is nested deeper than {} levels", limits::JSON_DEPTH));
    }
    if !may_be_odd(json) {
        return None;
    }
    let error = serde_json::from_str::<Strict>(json).err()?;
    let is_json = serde_json::from_str::<IgnoredAny>(json).is_ok();
    is_json.then(|| {
        let place = format!("at line {} column {}", error.line(), error.column());
        format!("is JSON that not every reader can read: half a character pair, or a number out of range, {place}")
    })
}

/// Whether the text may be JSON that only lax parsers accept. Nearly no text is, and a look at its bytes is much faster
/// than a parser.
fn may_be_odd(json: &str) -> bool {
    /// A float holds numbers of up to 309 digits. A run of so many digits covers at least one whole part of half of it.
    const PART: usize = 150;
    let bytes = json.as_bytes();
    let is_exponent = |pair: &[u8]| pair[0].is_ascii_digit() && matches!(pair[1], b'e' | b'E');
    json.contains("\\u")
        || bytes.windows(2).any(is_exponent)
        || bytes.chunks_exact(PART).any(|part| part.iter().all(u8::is_ascii_digit))
}

/// Any JSON, read as strictly as a reader that keeps its values, and dropped.
struct Strict;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Strict)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

impl Envelope {
    /// F60: why this event cannot be delivered, if plain SQL has written it: `enqueue` refuses such events. It is
    /// buried alone, with this reason.
    pub fn unreadable(&self) -> Option<Failure> {
        let why = |field: &str, why: String| Failure::reject(format!("{field} {why}")).code(UNREADABLE);
        if self.is_json()
            && let Some(fault) = unreadable(&self.payload)
        {
            return Some(why("payload", fault));
        }
        let metadata = self.metadata.as_deref()?;
        let is_object = metadata.trim_start().starts_with('{') && serde_json::from_str::<Strict>(metadata).is_ok();
        if limits::json_depth("metadata", metadata).is_ok() && is_object {
            return None;
        }
        Some(why("metadata", "must be a JSON object that every reader can read".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F60
    #[test]
    fn only_what_stops_a_strict_reader_is_unreadable() {
        let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let long = format!("[{}]", "9".repeat(400));
        let odd =
            [r#"{"a":"\ud800"}"#, r#"{"\udc00":1}"#, r#"["\ud83d\ud83d"]"#, "1e999", "[-1E400]", &long, &deep(1_000)];
        for json in odd {
            assert!(unreadable(json).is_some(), "{json}");
        }
        let even =
            [r#"{"a":"\ud83d\ude00\u0000"}"#, "1e300", "1e-999", r#""1e999""#, "no json: 1e999 \\ud800", &deep(64)];
        for json in even.into_iter().chain(["", "{", "null"]) {
            assert_eq!(unreadable(json), None, "{json}");
        }
    }

    /// F60: whatever is called readable is read by a parser that keeps everything.
    #[test]
    fn readable_json_becomes_a_value() {
        let parts =
            ["\"\\ud83d\"", "\"\\ude00x\"", "1e308", "1e309", "12345678901234567890123", "{\"k\":[0.1,-0]}", "\"\\n\""];
        for one in parts {
            for other in parts {
                let json = format!("[{one},{other}]");
                assert_eq!(
                    unreadable(&json).is_none(),
                    serde_json::from_str::<serde_json::Value>(&json).is_ok(),
                    "{json}"
                );
            }
        }
    }
}
