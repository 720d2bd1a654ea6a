//! What reads texts from outside, on mutations of a corpus: no input makes it panic, and what it has read it writes so that it
//! reads the same again. The same inputs in every run; `make fuzz` makes many more.

use std::path::Path;

use postrider::Envelope;
use postrider::envelope::{cloudevents, unreadable};
use postrider::jobs::Schedule;
use postrider::store::{Cursor, Filter};
use serde::de::IgnoredAny;
use time::OffsetDateTime;

/// Inputs of each target, unless `POSTRIDER_FUZZ_INPUTS` names another number.
const INPUTS: u64 = 20_000;

/// Seeds that the targets can read, beside the hostile corpus.
const SEEDS: [&str; 8] = [
    r#"{"eventId":"e","topic":"order.paid","payload":{"n":1.50},"occurredAt":"2026-11-18T08:00:00Z","key":"7","metadata":{"cloudEvent":{"id":"1","source":"/s"}}}"#,
    r#"{"eventId":"e","topic":"t","payload":"AP8B","payloadType":"image/png","payloadEncoding":"base64","occurredAt":"2026-01-01T00:00:00.5+08:00","aggregateType":"A","aggregateId":"1"}"#,
    r#"{"specversion":"1.0","id":"1","source":"/s","type":"order.paid","subject":"ORDER/7","data":{"a":[1e3,"\ud83d\ude00"]},"dataschema":"x","flag":true,"metadata":"{\"z\":1}"}"#,
    r#"{"specversion":"1.0","id":"1","source":"/","type":"t","data_base64":"AP8B","datacontenttype":"x/y","time":"2026-11-18T08:00:00Z"}"#,
    r#"{"topic":"t","statuses":["SENT"],"aggregateType":"A","from":"2026-11-18T08:00:00Z","cloudEventId":"1"}"#,
    "0/10 * * * * ?",
    "0 0 2 1-5,L */3 MON-FRI",
    "1234567890123456789",
];

/// Parts that a mutation may insert.
const PARTS: [&str; 16] = [
    "\\ud800",
    "\\ude00",
    "1e999",
    "\0",
    "\u{1b}",
    "[",
    "]",
    "{",
    "}",
    "\"",
    ",",
    "null",
    "-",
    "9999999999",
    "\u{10ffff}",
    "*",
];

fn corpus() -> Vec<String> {
    let hostile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../postrider-conformance/hostile");
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).expect("the corpus is there")).into_owned();
    let mut corpus: Vec<_> = SEEDS.map(Into::into).into();
    for folder in ["payloads/readable", "payloads/unreadable", "requests"] {
        let mut paths: Vec<_> = std::fs::read_dir(hostile.join(folder))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        corpus.extend(paths.iter().map(|path| read(path)));
    }
    let strings: Vec<String> = serde_json::from_str(&read(&hostile.join("strings.json"))).expect("a list");
    corpus.extend(strings);
    corpus
}

/// A pseudo-random generator: the same sequence in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % n.max(1)
    }

    /// A text of the corpus with up to eight changes.
    fn mutate(&mut self, corpus: &[String]) -> String {
        let mut text: Vec<char> = corpus[self.below(corpus.len())].chars().collect();
        for _ in 0..self.below(9) {
            let at = self.below(text.len() + 1);
            match self.below(5) {
                0 => drop(text.splice(at..at, PARTS[self.below(PARTS.len())].chars())),
                1 => text.truncate(at),
                2 if at < text.len() => drop(text.remove(at)),
                3 if at < text.len() => text[at] = char::from_u32(self.below(0x250) as u32).unwrap_or('x'),
                _ => {
                    let other: Vec<char> = corpus[self.below(corpus.len())].chars().collect();
                    let from = self.below(other.len() + 1);
                    text.splice(at..at, other[from..].iter().take(40).copied());
                }
            }
        }
        text.into_iter().collect()
    }
}

/// Runs a target on all of the corpus and on its mutations. Returns how many inputs it could read.
fn run(target: impl Fn(&str) -> bool) -> u64 {
    let inputs = std::env::var("POSTRIDER_FUZZ_INPUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(INPUTS);
    let (corpus, mut dice) = (corpus(), Dice(7));
    let mut read: u64 = corpus.iter().map(|text| u64::from(target(text))).sum();
    for _ in 0..inputs {
        read += u64::from(target(&dice.mutate(&corpus)));
    }
    read
}

#[test]
fn envelopes_read_what_they_write() {
    let read = run(|text| {
        let Ok(envelope) = serde_json::from_str::<Envelope>(text) else { return false };
        let Ok(()) = envelope.check() else { return false };
        let written = serde_json::to_string(&envelope).expect("an envelope is JSON");
        assert_eq!(serde_json::from_str::<Envelope>(&written).expect("it reads its own form"), envelope, "{text}");
        true
    });
    assert!(read > 20, "{read}");
}

/// F63
#[test]
fn cloudevents_read_what_they_write() {
    let read = run(|text| {
        let Ok(envelope) = cloudevents::from_structured(text, OffsetDateTime::UNIX_EPOCH) else { return false };
        let Ok(()) = envelope.check() else { return false };
        let written = cloudevents::to_structured(&envelope).expect("a checked event is a CloudEvent");
        let again = cloudevents::from_structured(&written, OffsetDateTime::UNIX_EPOCH).expect("it reads its own form");
        assert_eq!((&again.event_id, &again.payload), (&envelope.event_id, &envelope.payload), "{text}");
        true
    });
    assert!(read > 20, "{read}");
}

/// F60: JSON that is called readable is read by a parser that keeps its values.
#[test]
fn readable_payloads_are_values() {
    let read = run(|text| {
        let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
        if is_json && unreadable(text).is_none() {
            serde_json::from_str::<serde_json::Value>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        is_json
    });
    assert!(read > 20, "{read}");
}

#[test]
fn filters_cursors_and_schedules_survive_any_text() {
    let read = run(|text| {
        if let Ok(filter) = serde_json::from_str::<Filter>(text) {
            let written = serde_json::to_string(&filter).expect("a filter is JSON");
            assert_eq!(serde_json::from_str::<Filter>(&written).expect("it reads its own form"), filter, "{text}");
            let _ = filter.check();
            return true;
        }
        if let Ok(cursor) = text.parse::<Cursor>() {
            assert_eq!(cursor.to_string().parse::<Cursor>().expect("it reads its own form"), cursor, "{text}");
            return true;
        }
        Schedule::parse(text, "UTC").is_ok()
    });
    assert!(read > 20, "{read}");
}
