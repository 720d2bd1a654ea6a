//! Failures in groups: by consumer and by the error text without numbers and ids. Computed from unfinished events, so
//! that resolved failures disappear.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use crate::entry::DISCARDED;
use crate::error::Result;
use crate::limits;
use crate::scope::Scope;
use crate::status::{ConsumerState, EventStatus, Record};
use crate::store::{Filter, List, Store};

/// Number of events of each status that are read, the newest first. If there are more, the result is marked as cut.
const LOOKED_AT: usize = 5_000;
/// Number of characters of an error that distinguish one kind from another.
const FINGERPRINT_CHARS: usize = 200;

/// Failures of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureGroup {
    /// The consumer.
    pub consumer: String,
    /// The part of the error text that they have in common.
    pub fingerprint: String,
    /// The code of the newest failure.
    pub code: Option<String>,
    /// How many events.
    pub events: u64,
    /// How many of them will not be tried again automatically.
    pub dead: u64,
    /// The earliest of their last failures.
    pub first_at: OffsetDateTime,
    /// The latest of their last failures.
    pub last_at: OffsetDateTime,
    /// The error text of the newest failure.
    pub sample: String,
    /// The event of the newest failure.
    pub sample_event_id: String,
}

/// All groups, the largest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// The groups.
    pub groups: Vec<FailureGroup>,
    /// Whether there are more unfinished events than were read.
    pub cut: bool,
}

/// Groups the failures of unfinished events, inside the scope.
pub async fn failures(store: &dyn Store, scope: &Scope) -> Result<Failures> {
    let mut groups: BTreeMap<(String, String), FailureGroup> = BTreeMap::new();
    let mut cut = false;
    for status in [EventStatus::Failed, EventStatus::Partial, EventStatus::Retrying] {
        let filter = Filter { status: Some(status), ..Filter::within(scope) };
        let mut list = List::new(filter, limits::PAGE_EVENTS);
        let mut seen = 0;
        loop {
            let page = store.list(&list).await?;
            seen += page.events.len();
            page.events.iter().for_each(|record| count(record, scope, &mut groups));
            match page.next {
                None => break,
                Some(_) if seen >= LOOKED_AT => {
                    cut = true;
                    break;
                }
                Some(next) => list.after = Some(next),
            }
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|a, b| (b.events, &a.consumer, &a.fingerprint).cmp(&(a.events, &b.consumer, &b.fingerprint)));
    Ok(Failures { groups, cut })
}

fn count(record: &Record, scope: &Scope, groups: &mut BTreeMap<(String, String), FailureGroup>) {
    for (consumer, state) in record.consumers() {
        if !matches!(state, ConsumerState::Failed | ConsumerState::Retrying) || !scope.has_consumer(consumer) {
            continue;
        }
        let of_consumer =
            record.consumptions.iter().filter(|one| one.consumer == consumer && one.success == Some(false));
        let Some(last) = of_consumer.max_by_key(|one| one.attempt) else { continue };
        // An operator has discarded it, so it needs no more attention.
        if last.code.as_deref() == Some(DISCARDED) {
            continue;
        }
        let sample = last.error.clone().unwrap_or_default();
        let fingerprint = fingerprint(&sample);
        let group = groups.entry((consumer.into(), fingerprint.clone())).or_insert_with(|| FailureGroup {
            consumer: consumer.into(),
            fingerprint,
            code: last.code.clone(),
            events: 0,
            dead: 0,
            first_at: last.created_at,
            last_at: last.created_at,
            sample: sample.clone(),
            sample_event_id: record.envelope.event_id.to_string(),
        });
        group.events += 1;
        group.dead += u64::from(state == ConsumerState::Failed);
        group.first_at = group.first_at.min(last.created_at);
        if last.created_at > group.last_at {
            group.last_at = last.created_at;
            group.code.clone_from(&last.code);
            group.sample = sample;
            group.sample_event_id = record.envelope.event_id.to_string();
        }
    }
}

/// An error text without variable parts: words with a digit become `#`, and white space becomes one space.
pub fn fingerprint(error: &str) -> String {
    let mut words = Vec::new();
    for word in error.split_whitespace() {
        let plain = |part: &str| if part.chars().any(|c| c.is_ascii_digit()) { "#".into() } else { part.to_owned() };
        // Also splits at separators within words: `order=7,item=9` equals `order=8,item=1`.
        let parts: Vec<String> = word
            .split_inclusive(['=', ',', ':', ';', '(', ')', '[', ']', '"', '\''])
            .map(|part| {
                let (text, end) = match part.char_indices().next_back() {
                    Some((at, c)) if !c.is_alphanumeric() => part.split_at(at),
                    _ => (part, ""),
                };
                plain(text) + end
            })
            .collect();
        words.push(parts.concat());
    }
    words.join(" ").chars().take(FINGERPRINT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_and_ids_are_of_one_kind() {
        let same = [
            ["timeout after 30 s for order 7", "timeout after 31 s for  order 1234"],
            ["no row 550e8400-e29b-41d4-a716-446655440000", "no row 6ba7b810-9dad-11d1-80b4-00c04fd430c8"],
            ["order=7,item=\"a1\": gone", "order=8,item=\"b22\": gone"],
        ];
        for [a, b] in same {
            assert_eq!(fingerprint(a), fingerprint(b));
        }
        assert_eq!(fingerprint("timeout after 30 s"), "timeout after # s");
        assert_ne!(fingerprint("no such coupon"), fingerprint("no such wallet"));
        assert_eq!(fingerprint(&"x ".repeat(500)).chars().count(), 200);
        assert_eq!(fingerprint(""), "");
    }
}
