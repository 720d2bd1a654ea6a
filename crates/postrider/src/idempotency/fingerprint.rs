//! Fingerprints: defines when two requests are the same.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The SHA-256 of a request as canonical JSON: the fields of every object sorted by name, without white space. The
/// order of fields makes no difference; null and a missing field differ, and so do `1` and `1.0`.
pub fn fingerprint(request: &(impl Serialize + ?Sized)) -> Result<[u8; 32]> {
    let mut text = String::new();
    write(&serde_json::to_value(request).map_err(Error::Encode)?, &mut text);
    Ok(Sha256::digest(text).into())
}

/// Sorts explicitly: whether serde_json sorts depends on features that other crates enable.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (at, (name, value)) in fields.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write(value, text);
            }
            text.push(']');
        }
        simple => text.push_str(&simple.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn same(one: &str, other: &str) -> bool {
        let of = |json| fingerprint(&serde_json::from_str::<Value>(json).expect("JSON")).expect("JSON");
        of(one) == of(other)
    }

    /// F25: the order of fields makes no difference, everything else does.
    #[test]
    fn the_order_of_fields_makes_no_difference() {
        assert!(same(r#"{"a":1,"b":{"c":2,"d":[3]}}"#, r#"{ "b": {"d":[3], "c":2}, "a":1 }"#));
        assert!(!same(r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#));
        assert!(!same(r#"{"a":1}"#, r#"{"a":"1"}"#));
        assert!(!same(r#"{"a":null}"#, "{}"));
        assert!(!same(r#"{"a":{"b":1}}"#, r#"{"a":{},"b":1}"#));
        assert!(!same(r#"{"a\":1,\"b":2}"#, r#"{"a":1,"b":2}"#), "a name cannot pass for two");
    }

    /// Stored fingerprints are compared after an update, so the format must not change.
    #[test]
    fn a_fingerprint_stays_as_it_is() {
        #[derive(Serialize)]
        struct Deduct {
            sku: &'static str,
            quantity: u32,
        }
        let one = fingerprint(&Deduct { sku: "A", quantity: 2 }).expect("JSON");
        assert_eq!(one, fingerprint(&json!({ "quantity": 2, "sku": "A" })).expect("JSON"));
        // printf '{"quantity":2,"sku":"A"}' | sha256sum
        assert_eq!(hex::encode(one), "7ebc12bb899a5a30bab5d5ddf5363631393c55424d3d8341d20d352d17136bf4");
    }
}
