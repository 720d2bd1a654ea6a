//! Parts of payloads that only admins and consumers see. The rest is shown as it was written: no number and no order of fields
//! changes.

use std::fmt;

use postrider::Envelope;
use postrider::envelope::Encoding;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What is shown instead.
const MASK: &str = "\"***\"";

/// What is masked: JSON paths, applied to payload and metadata of every event.
#[derive(Debug, Clone, Default)]
pub struct Mask(Vec<Vec<Step>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// A field of this name.
    Field(String),
    /// An item of a list.
    Item(usize),
    /// Every field or item.
    Every,
    /// What follows, at any depth.
    Anywhere,
}

impl Mask {
    /// Reads JSON paths such as `$.card.number`, `$..email`, `$.items[*].price`, `$.lines[0]`, `$['a b']`, and `$` for everything.
    pub fn parse(paths: &[String]) -> Result<Self, String> {
        paths.iter().map(|path| steps(path).ok_or_else(|| refused(path))).collect::<Result<_, _>>().map(Self)
    }

    /// Masks an event, for people. A payload that is no JSON has no parts: only `$` masks it.
    pub(crate) fn apply(&self, envelope: &mut Envelope) {
        if self.0.is_empty() {
            return;
        }
        let paths: Vec<&[Step]> = self.0.iter().map(Vec::as_slice).collect();
        if envelope.is_json() {
            envelope.payload = masked(&envelope.payload, &paths);
        } else if paths.iter().any(|path| path.is_empty()) {
            envelope.payload = "***".into();
            envelope.payload_encoding = Encoding::default();
        }
        envelope.metadata = envelope.metadata.take().map(|metadata| masked(&metadata, &paths).into());
    }

    /// Masks JSON that is no part of an event.
    pub(crate) fn of_json(&self, json: String) -> String {
        if self.0.is_empty() {
            return json;
        }
        masked(&json, &self.0.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
}

fn refused(path: &str) -> String {
    format!("{path:?} is no JSON path such as $.card.number, $..email, $.items[*].price or $['a b']")
}

fn steps(path: &str) -> Option<Vec<Step>> {
    let (mut rest, mut steps) = (path.strip_prefix('$')?, Vec::new());
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            steps.push(Step::Anywhere);
            if after.starts_with('[') {
                rest = after;
                continue;
            }
            rest = field(after, &mut steps)?;
        } else if let Some(after) = rest.strip_prefix('.') {
            rest = field(after, &mut steps)?;
        } else {
            let inner = rest.strip_prefix('[')?;
            let quoted = ['\'', '"'].into_iter().find_map(|quote| {
                let (name, after) = inner.strip_prefix(quote)?.split_once(quote)?;
                Some((Step::Field(name.into()), after.strip_prefix(']')?))
            });
            let (step, after) = quoted.or_else(|| {
                let (inside, after) = inner.split_once(']')?;
                let step = if inside == "*" { Step::Every } else { Step::Item(inside.parse().ok()?) };
                Some((step, after))
            })?;
            steps.push(step);
            rest = after;
        }
    }
    // What `..` stands before is missing.
    (steps.last() != Some(&Step::Anywhere)).then_some(steps)
}

/// Reads the name of a field up to the next step.
fn field<'p>(text: &'p str, steps: &mut Vec<Step>) -> Option<&'p str> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() || name.contains([']', '\'', '"', ' ']) {
        return None;
    }
    steps.push(if name == "*" { Step::Every } else { Step::Field(name.into()) });
    Some(rest)
}

/// The text without what these paths name. What cannot be read, plain SQL may have written: it is masked as a whole.
fn masked(text: &str, paths: &[&[Step]]) -> String {
    let masked = serde_json::from_str(text).ok().and_then(|value: &RawValue| {
        let mut out = String::with_capacity(text.len());
        write(value, paths, &mut out).map(|()| out)
    });
    masked.unwrap_or_else(|| MASK.into())
}

/// Appends a value; `None` if it cannot be read.
fn write(value: &RawValue, paths: &[&[Step]], out: &mut String) -> Option<()> {
    if paths.iter().any(|path| path.is_empty()) {
        out.push_str(MASK);
        return Some(());
    }
    let text = value.get();
    if paths.is_empty() {
        out.push_str(text);
    } else if text.starts_with('{') {
        out.push('{');
        for (n, (name, value)) in serde_json::from_str::<Fields<'_>>(text).ok()?.0.into_iter().enumerate() {
            let known: String = serde_json::from_str(name.get()).ok()?;
            out.push_str(if n == 0 { "" } else { "," });
            out.push_str(name.get());
            out.push(':');
            write(value, &below(paths, |step| *step == Step::Field(known.clone())), out)?;
        }
        out.push('}');
    } else if text.starts_with('[') {
        out.push('[');
        for (n, value) in serde_json::from_str::<Vec<&RawValue>>(text).ok()?.into_iter().enumerate() {
            out.push_str(if n == 0 { "" } else { "," });
            write(value, &below(paths, |step| *step == Step::Item(n)), out)?;
        }
        out.push(']');
    } else {
        out.push_str(text);
    }
    Some(())
}

/// What is left of the paths below a field or an item.
fn below<'s>(paths: &[&'s [Step]], is_it: impl Fn(&Step) -> bool) -> Vec<&'s [Step]> {
    let mut left = Vec::new();
    for path in paths {
        match path {
            [Step::Anywhere, rest @ ..] => {
                left.push(*path);
                left.extend(
                    rest.split_first().filter(|(step, _)| **step == Step::Every || is_it(step)).map(|(_, rest)| rest),
                );
            }
            [step, rest @ ..] if *step == Step::Every || is_it(step) => left.push(rest),
            _ => {}
        }
    }
    left
}

/// The fields of an object in their order, as they are written.
struct Fields<'t>(Vec<(&'t RawValue, &'t RawValue)>);

impl<'t> Deserialize<'t> for Fields<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'t> Visitor<'t> for InOrder {
            type Value = Fields<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Fields<'t>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(paths: &[&str], text: &str) -> String {
        let steps: Vec<_> = paths.iter().map(|path| steps(path).unwrap_or_else(|| panic!("{path}"))).collect();
        masked(text, &steps.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// S21
    #[test]
    fn paths_name_what_is_masked_and_the_rest_stays_as_it_was() {
        let order = r#"{"id": 1e5, "card":{"number":"4242","name":"A"},"items":[{"price":1.10,"n":1},{"price":2,"n":[3]}],"a b":1}"#;
        let cases = [
            (
                "$.card.number",
                r#"{"id":1e5,"card":{"number":"***","name":"A"},"items":[{"price":1.10,"n":1},{"price":2,"n":[3]}],"a b":1}"#,
            ),
            ("$.card", r#"{"id":1e5,"card":"***","items":[{"price":1.10,"n":1},{"price":2,"n":[3]}],"a b":1}"#),
            (
                "$.items[*].price",
                r#"{"id":1e5,"card":{"number":"4242","name":"A"},"items":[{"price":"***","n":1},{"price":"***","n":[3]}],"a b":1}"#,
            ),
            (
                "$..n",
                r#"{"id":1e5,"card":{"number":"4242","name":"A"},"items":[{"price":1.10,"n":"***"},{"price":2,"n":"***"}],"a b":1}"#,
            ),
            (
                "$.items[1]",
                r#"{"id":1e5,"card":{"number":"4242","name":"A"},"items":[{"price":1.10,"n":1},"***"],"a b":1}"#,
            ),
            (
                "$['a b']",
                r#"{"id":1e5,"card":{"number":"4242","name":"A"},"items":[{"price":1.10,"n":1},{"price":2,"n":[3]}],"a b":"***"}"#,
            ),
            ("$.*", r#"{"id":"***","card":"***","items":"***","a b":"***"}"#),
            ("$", r#""***""#),
        ];
        for (path, expected) in cases {
            assert_eq!(mask(&[path], order), expected, "{path}");
        }
        assert_eq!(mask(&["$.missing", "$.card.number.deeper"], order).replace(' ', ""), order.replace(' ', ""));
        // A name may be written with escapes, and twice.
        assert_eq!(mask(&["$..email"], r#"{"\u0065mail":"x","email":"y"}"#), r#"{"\u0065mail":"***","email":"***"}"#);
        assert_eq!(mask(&["$..email"], "{not json"), MASK);
    }

    #[test]
    fn a_wrong_path_is_refused() {
        for wrong in
            ["", "card", ".card", "$card", "$.", "$..", "$.a.", "$[", "$[x]", "$['a]", "$.a b", "$[-1]", "$.a..", "$[]"]
        {
            assert!(steps(wrong).is_none(), "{wrong}");
        }
    }
}
