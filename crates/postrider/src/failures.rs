//! Failures in groups: by consumer and by the error text without numbers and ids. Computed from unfinished events, so
//! that resolved failures disappear.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::entry::{DISCARDED, DeliveryStatus};
use crate::error::Result;
use crate::limits;
use crate::scope::Scope;
use crate::status::{ConsumerState, EventStatus, Record};
use crate::store::{Consumption, DeliveryId, Filter, List, Store};

/// The statuses of events with a failure that no success has followed.
pub(crate) const OPEN: [EventStatus; 3] = [EventStatus::Failed, EventStatus::Partial, EventStatus::Retrying];
/// Number of events of each status that are read, the newest first. If there are more, the result is marked as cut.
const LOOKED_AT: usize = 5_000;
/// Number of characters of an error that distinguish one kind from another.
const FINGERPRINT_CHARS: usize = 200;
/// Dead deliveries with a key, of all groups together, whose followers are counted.
const HEADS: usize = 100;
/// Characters of the hash in a group's id.
const HASH_CHARS: usize = 12;
/// Hours of the history of a group.
pub const HOURS: usize = 24;
/// Topics that a group names.
const TOPICS: usize = 20;

/// Failures of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureGroup {
    /// Always the same for this consumer and fingerprint, so that a filter can name the group.
    pub id: String,
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
    /// How many of the last failures fell into each of the last 24 hours, the current one last.
    pub hours: [u64; HOURS],
    /// The topics, those with most events first.
    pub topics: Vec<(String, u64)>,
    /// Later events of the same keys, which wait behind those that are dead. Counted for the first hundred keys.
    pub held: u64,
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
    let now = store.now().await?;
    let mut groups: BTreeMap<String, Counting> = BTreeMap::new();
    let mut cut = false;
    for status in OPEN {
        let filter = Filter { status: Some(status), ..Filter::within(scope) };
        let mut list = List::new(filter, limits::PAGE_EVENTS);
        let mut seen = 0;
        loop {
            let page = store.list(&list).await?;
            seen += page.events.len();
            page.events.iter().for_each(|record| count(record, scope, now, &mut groups));
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
    count_held(store, &mut groups).await?;
    let mut groups: Vec<_> = groups.into_values().map(Counting::done).collect();
    groups.sort_by(|a, b| (b.events, &a.consumer, &a.fingerprint).cmp(&(a.events, &b.consumer, &b.fingerprint)));
    Ok(Failures { groups, cut })
}

/// The id of a group. Its beginning is the consumer's name.
pub fn group_id(consumer: &str, fingerprint: &str) -> String {
    let hash = Sha256::new().chain_update(consumer).chain_update([0]).chain_update(fingerprint).finalize();
    format!("{consumer}-{}", &hex::encode(hash)[..HASH_CHARS])
}

/// The consumer that a group's id names; `None` if it is no such id.
pub(crate) fn consumer_of(group: &str) -> Option<&str> {
    let (consumer, hash) = group.rsplit_once('-')?;
    let is_hash = hash.len() == HASH_CHARS && hash.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    (is_hash && !consumer.is_empty()).then_some(consumer)
}

/// Whether an event belongs to one of these groups.
pub(crate) fn is_in(record: &Record, groups: &[String]) -> bool {
    failed(record).any(|(consumer, _, last)| {
        let mut of_consumer = groups.iter().filter(|group| consumer_of(group) == Some(consumer)).peekable();
        of_consumer.peek().is_some() && {
            let id = group_id(consumer, &fingerprint(last.error.as_deref().unwrap_or_default()));
            of_consumer.any(|group| *group == id)
        }
    })
}

/// The consumers whose last attempt failed, with that attempt.
fn failed(record: &Record) -> impl Iterator<Item = (&str, ConsumerState, &Consumption)> {
    record.consumers().into_iter().filter_map(|(consumer, state)| {
        if !matches!(state, ConsumerState::Failed | ConsumerState::Retrying) {
            return None;
        }
        let of_consumer =
            record.consumptions.iter().filter(|one| one.consumer == consumer && one.success == Some(false));
        let last = of_consumer.max_by_key(|one| one.attempt)?;
        // An operator has discarded it, so it needs no more attention.
        (last.code.as_deref() != Some(DISCARDED)).then_some((consumer, state, last))
    })
}

/// A group while it is counted.
struct Counting {
    group: FailureGroup,
    topics: BTreeMap<String, u64>,
    /// The first dead delivery of each key.
    heads: BTreeMap<String, DeliveryId>,
}

impl Counting {
    fn done(mut self) -> FailureGroup {
        self.group.topics = self.topics.into_iter().collect();
        self.group.topics.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        self.group.topics.truncate(TOPICS);
        self.group
    }
}

fn count(record: &Record, scope: &Scope, now: OffsetDateTime, groups: &mut BTreeMap<String, Counting>) {
    for (consumer, state, last) in failed(record).filter(|(consumer, ..)| scope.has_consumer(consumer)) {
        let sample = last.error.clone().unwrap_or_default();
        let fingerprint = fingerprint(&sample);
        let id = group_id(consumer, &fingerprint);
        let counting = groups.entry(id.clone()).or_insert_with(|| Counting {
            group: FailureGroup {
                id,
                consumer: consumer.into(),
                fingerprint,
                code: last.code.clone(),
                events: 0,
                dead: 0,
                first_at: last.created_at,
                last_at: last.created_at,
                sample: sample.clone(),
                sample_event_id: record.envelope.event_id.to_string(),
                hours: [0; HOURS],
                topics: Vec::new(),
                held: 0,
            },
            topics: BTreeMap::new(),
            heads: BTreeMap::new(),
        });
        *counting.topics.entry(record.envelope.topic.clone()).or_default() += 1;
        let group = &mut counting.group;
        group.events += 1;
        group.dead += u64::from(state == ConsumerState::Failed);
        group.first_at = group.first_at.min(last.created_at);
        let hours_ago = usize::try_from((now - last.created_at).whole_hours().max(0)).unwrap_or(HOURS);
        if let Some(hour) = group.hours.iter_mut().rev().nth(hours_ago) {
            *hour += 1;
        }
        if last.created_at > group.last_at {
            group.last_at = last.created_at;
            group.code.clone_from(&last.code);
            group.sample = sample;
            group.sample_event_id = record.envelope.event_id.to_string();
        }
        let dead =
            record.deliveries.iter().find(|one| one.consumer() == Some(consumer) && one.status == DeliveryStatus::Dead);
        if let (Some(key), Some(dead)) = (&record.envelope.key, dead) {
            // Events come newest first within a status, and the first of a key is what the others wait for.
            let head = counting.heads.entry(key.clone()).or_insert(dead.id);
            *head = (*head).min(dead.id);
        }
    }
}

/// Counts what waits behind the dead.
async fn count_held(store: &dyn Store, groups: &mut BTreeMap<String, Counting>) -> Result<()> {
    let heads = groups.values().flat_map(|counting| counting.heads.values());
    let heads: Vec<DeliveryId> = heads.copied().take(HEADS).collect();
    if heads.is_empty() {
        return Ok(());
    }
    for letter in store.find_dead(&heads).await? {
        let of_letter = |counting: &&mut Counting| counting.heads.values().any(|head| *head == letter.id);
        if let Some(counting) = groups.values_mut().find(of_letter) {
            counting.group.held += letter.held;
        }
    }
    Ok(())
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
