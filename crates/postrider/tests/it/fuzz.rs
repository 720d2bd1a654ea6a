//! What reads texts from outside, on a corpus and its mutations: no input makes it panic, and what it has read it writes so that
//! it reads the same again. The same inputs in every run. `make fuzz` searches for hours, with coverage; what it has found is in
//! `fuzz/corpus/` and belongs to the corpus here.

mod targets;

use std::path::Path;

/// Mutations for each target.
const INPUTS: u64 = 20_000;

/// Seeds that the targets can read, beside the hostile corpus.
const SEEDS: [&str; 10] = [
    r#"{"eventId":"e","topic":"order.paid","payload":{"n":1.50},"occurredAt":"2026-11-18T08:00:00Z","key":"7","metadata":{"cloudEvent":{"id":"1","source":"/s"}}}"#,
    r#"{"eventId":"e","topic":"t","payload":"AP8B","payloadType":"image/png","payloadEncoding":"base64","occurredAt":"2026-01-01T00:00:00.5+08:00","aggregateType":"A","aggregateId":"1"}"#,
    r#"{"specversion":"1.0","id":"1","source":"/s","type":"order.paid","subject":"ORDER/7","data":{"a":[1e3,"\ud83d\ude00"]},"dataschema":"x","flag":true,"metadata":"{\"z\":1}"}"#,
    r#"{"specversion":"1.0","id":"1","source":"/","type":"t","data_base64":"AP8B","datacontenttype":"x/y","time":"2026-11-18T08:00:00Z"}"#,
    r#"{"topic":"t","statuses":["SENT"],"aggregateType":"A","from":"2026-11-18T08:00:00Z","cloudEventId":"1"}"#,
    r#"{"eventId":"e","consumerId":"points","success":false,"willRetry":true,"errorMessage":"x","callbackId":"1"}"#,
    r#"{"eventId":"e","consumerId":"points","success":true,"consumedAt":"2026-11-18T08:00:00+08:00","errorCode":null}"#,
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

/// The hostile corpus, and what `make fuzz` has found for this target.
fn corpus(name: &str) -> Vec<String> {
    let hostile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../postrider-conformance/hostile");
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).expect("the corpus is there")).into_owned();
    let mut corpus: Vec<_> = SEEDS.map(Into::into).into();
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let folders = ["payloads/readable", "payloads/unreadable", "requests"].map(|folder| hostile.join(folder));
    for folder in folders.into_iter().chain([found]) {
        let mut paths: Vec<_> =
            std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
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

/// Runs a target on all of the corpus and on its mutations. At least twenty of them are texts that it can read.
fn run(name: &str, target: impl Fn(&str) -> bool) {
    let (corpus, mut dice) = (corpus(name), Dice(7));
    let mut read = corpus.iter().filter(|text| target(text)).count();
    for _ in 0..INPUTS {
        read += usize::from(target(&dice.mutate(&corpus)));
    }
    assert!(read > 20, "{name}: {read}");
}

#[test]
fn envelopes_read_what_they_write() {
    run("envelope", targets::envelope);
}

/// F63
#[test]
fn cloudevents_read_what_they_write() {
    run("cloudevent", targets::cloudevent);
}

/// F60
#[test]
fn readable_payloads_are_values() {
    run("payload", targets::payload);
}

#[test]
fn filters_read_what_they_write() {
    run("filter", targets::filter);
}

#[test]
fn cursors_read_what_they_write() {
    run("cursor", targets::cursor);
}

#[test]
fn schedules_go_forward() {
    run("cron", targets::cron);
}

#[test]
fn receipts_read_what_they_write() {
    run("receipt", targets::receipt);
}
