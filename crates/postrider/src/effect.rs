//! Effects: what a consumer did, in words and figures. It keeps them with its result, and the [story](crate::story) of a business
//! key shows them, adds up what each asset has gained or lost, and connects compensations with what they undo.
//!
//! ```
//! use postrider::effect::Effect;
//!
//! // Inside a consumer: `received.keep(&effects)?`, with one effect or a list of them.
//! let freeze = Effect::new("froze 40.00").moved("wallet of ada", "-40.00").key("wallet:7:freeze");
//! let give_back = Effect::new("gave back 40.00").moved("wallet of ada", "+40.00").undoes("wallet:7:freeze");
//! let kept = serde_json::to_string(&[freeze, give_back])?;
//! assert_eq!(Effect::of_result(&kept)[1].undoes, ["wallet:7:freeze"]);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! Without this type, the same is free JSON: `{"effect": "froze 40.00", "asset": "wallet of ada", "delta": "-40.00"}`, a list of
//! such objects, or an object with them in `effects`. Other fields beside these are allowed and left alone.

use std::fmt::Display;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Effects of one result that are read: more than a person looks through.
const EFFECTS: usize = 100;

/// One effect of a consumer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// What was done, for people.
    pub effect: String,
    /// What has gained or lost by it: an account, a thing in stock. The same name in all effects on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asset: Option<String>,
    /// How much, with its sign: a decimal number. Words may follow it (`-40.00 frozen`).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text_or_number")]
    pub delta: Option<String>,
    /// What it takes back: business keys of effects, or ids of events whose effect by the same consumer it is.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "one_or_list",
        deserialize_with = "list_or_one"
    )]
    pub undoes: Vec<String>,
    /// Its business key, if the consumer has several effects with a key each. Otherwise the key of the inbox row counts
    /// ([`Received::keep_key`](crate::Received::keep_key)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

impl Effect {
    /// An effect in words: `froze 40.00`.
    pub fn new(effect: impl Into<String>) -> Self {
        Self { effect: effect.into(), ..Self::default() }
    }

    /// What it has moved, and by how much. The sum over all effects of a business key is the asset's net; it is 0 if everything came
    /// back.
    #[must_use]
    pub fn moved(self, asset: impl Into<String>, delta: impl Display) -> Self {
        Self { asset: Some(asset.into()), delta: Some(delta.to_string()), ..self }
    }

    /// Names an effect that it takes back: by its business key, or by the id of its event. May be called again for another one.
    #[must_use]
    pub fn undoes(mut self, key_or_event: impl Into<String>) -> Self {
        self.undoes.push(key_or_event.into());
        self
    }

    /// Gives it a business key of its own.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { idempotency_key: Some(key.into()), ..self }
    }

    /// The effects in a result that a consumer has kept. A result of another form has none.
    pub fn of_result(result: &str) -> Vec<Self> {
        let Ok(mut result) = serde_json::from_str::<Value>(result) else { return Vec::new() };
        let list = match &mut result {
            Value::Array(list) => std::mem::take(list),
            Value::Object(fields) => match fields.get_mut("effects") {
                Some(Value::Array(list)) => std::mem::take(list),
                _ => vec![result],
            },
            _ => return Vec::new(),
        };
        list.into_iter().filter_map(|one| serde_json::from_value(one).ok()).take(EFFECTS).collect()
    }
}

fn one_or_list<S: Serializer>(names: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    match names {
        [one] => one.serialize(serializer),
        many => many.serialize(serializer),
    }
}

fn list_or_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        None,
        One(String),
        Many(Vec<String>),
    }
    Ok(match Names::deserialize(deserializer)? {
        Names::None => Vec::new(),
        Names::One(name) => vec![name],
        Names::Many(names) => names,
    })
}

fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Delta {
        None,
        Text(String),
        Number(serde_json::Number),
    }
    Ok(match Delta::deserialize(deserializer)? {
        Delta::None => None,
        Delta::Text(text) => Some(text),
        Delta::Number(number) => Some(number.to_string()),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::Effect;

    /// G.11: JSON written by hand is read too, and other results are left alone.
    #[test]
    fn effects_are_read_from_any_result() {
        let read = Effect::of_result;
        let froze = Effect::new("froze 40.00").moved("wallet of ada", "-40.00").key("wallet:7:freeze");
        assert_eq!(read(&serde_json::to_string(&froze).unwrap()), std::slice::from_ref(&froze));
        assert_eq!(read(&serde_json::to_string(&[&froze, &froze]).unwrap()), [froze.clone(), froze.clone()]);
        let beside = r#"{"took": 3, "effects": [{"effect": "took 3", "asset": "P-31", "delta": -3, "more": true}, 7]}"#;
        assert_eq!(read(beside), [Effect::new("took 3").moved("P-31", -3)]);
        let undone = r#"{"effect": "put back", "undoes": ["a", "b"], "asset": null, "delta": null}"#;
        assert_eq!(read(undone), [Effect::new("put back").undoes("a").undoes("b")]);
        assert_eq!(read(r#"{"effect": "x", "undoes": null}"#), [Effect::new("x")]);
        for other in ["", "7", "null", "\"effect\"", "{}", "[]", "{\"effect\": 7}", "[[{\"effect\": \"x\"}]]", "{"] {
            assert!(read(other).is_empty(), "{other}");
        }
        assert_eq!(serde_json::to_string(&Effect::new("x").undoes("a")).unwrap(), r#"{"effect":"x","undoes":"a"}"#);
    }
}
