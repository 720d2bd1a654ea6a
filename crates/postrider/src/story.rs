//! The story of a business key: its events, what each consumer did about them, the repeats that were stopped, and what was undone.

mod sum;
mod tell;

use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;

pub use sum::Asset;

use crate::effect::Effect;
use crate::error::Result;
use crate::event::Aggregate;
use crate::limits;
use crate::lineage;
use crate::scope::Scope;
use crate::status::{ConsumerState, Record};
use crate::store::{Filter, ReceivedEvent, Store, StoredKey};
use crate::subscription::EVERY_TOPIC;

/// What a story is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The key that orders its events.
    Key(String),
    /// The aggregate of its events.
    Aggregate(Aggregate),
}

/// Everything about one business key.
#[derive(Debug, Clone)]
pub struct Story {
    /// The aggregate that the story is about, if its events name one.
    pub aggregate: Option<Aggregate>,
    /// By the time at which they occurred.
    pub events: Vec<StoryEvent>,
    /// The rows of business keys that its effects name.
    pub keys: Vec<StoredKey>,
    /// What each asset has gained or lost.
    pub assets: Vec<Asset>,
    /// Counts over all of it.
    pub figures: Figures,
    /// Whether there are more than [`limits::STORY_EVENTS`] events, of which these are the newest.
    pub cut: bool,
}

/// Counts over a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Events.
    pub events: u64,
    /// Effects that have happened.
    pub effects: u64,
    /// Attempts of all consumers.
    pub attempts: u64,
    /// Repeats that an inbox has stopped.
    pub repeats_stopped: u64,
    /// Effects that happened twice.
    pub twice: u64,
}

/// An event, and what its consumers did about it.
#[derive(Debug, Clone)]
pub struct StoryEvent {
    /// The event with its deliveries and attempts, without payload and metadata.
    pub record: Record,
    /// By consumer. A consumer has one at least.
    pub effects: Vec<StoryEffect>,
    /// Whether it undoes effects of other events.
    pub compensation: bool,
    /// The consumers that it is expected to reach.
    pub consumers: Vec<String>,
}

/// What one consumer did about one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoryEffect {
    /// The consumer.
    pub consumer: String,
    /// Whether it has happened.
    pub state: ConsumerState,
    /// What the consumer has kept about it.
    pub effect: Option<Effect>,
    /// The result that it has kept, if that names no effect.
    pub result: Option<String>,
    /// Its business key, or the event's id.
    pub idempotency_key: Option<String>,
    /// The status of that key.
    pub key_state: Option<String>,
    /// Attempts of the consumer at the event.
    pub attempts: u32,
    /// How often the inbox has stopped the event.
    pub repeats_stopped: u32,
    /// When it happened.
    pub at: Option<OffsetDateTime>,
    /// When it is tried next.
    pub due_at: Option<OffsetDateTime>,
    /// The events whose effects it undoes, or the keys that it names if the story has no such effect.
    pub undoes: Vec<String>,
    /// Whether another consumer had the same effect before, under the same business key: this one changed nothing.
    pub again: bool,
    /// What has become of it since.
    pub undone: Option<Undone>,
}

/// An effect that a compensation takes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undone {
    /// At this time.
    At(OffsetDateTime),
    /// Not yet: its consumer has not handled the compensation.
    Waits,
}

/// The story, as far as it is inside the scope. Without events nothing is known about its subject.
pub async fn read(store: &dyn Store, subject: &Subject, scope: &Scope) -> Result<Story> {
    let mut filter = Filter::within(scope);
    match subject {
        Subject::Key(key) => filter.key = Some(key.clone()),
        Subject::Aggregate(aggregate) => {
            filter.aggregate_type = Some(aggregate.kind.clone());
            filter.aggregate_id = Some(aggregate.id.clone());
        }
    }
    let (mut records, cut) = lineage::all(store, filter, limits::STORY_EVENTS).await?;
    records.iter_mut().for_each(|record| scope.cut(record));
    records.sort_by_key(|record| (record.envelope.occurred_at, record.sequence));
    let audience = audience(store, scope).await?;
    let reached = |record: &Record| {
        let known = record.consumers().into_keys().map(str::to_owned);
        let subscribed =
            [record.envelope.topic.as_str(), EVERY_TOPIC].into_iter().filter_map(|topic| audience.get(topic));
        known.chain(subscribed.flatten().cloned()).collect::<BTreeSet<String>>()
    };
    let pairs: Vec<_> = records
        .iter()
        .flat_map(|record| reached(record).into_iter().map(|consumer| (consumer, record.envelope.event_id.to_string())))
        .collect();
    let received = store.received(&pairs).await?;
    let ids: Vec<&str> = records.iter().map(|record| record.envelope.event_id.as_str()).collect();
    let mut repeats = store.repeats(&ids).await?;
    repeats.retain(|repeat| scope.has_consumer(&repeat.consumer));
    // Rows of keys belong to no tenant and no topic: a caller with a scope sees none.
    let keys = if scope.is_everything() { keys(store, subject, &received).await? } else { Vec::new() };
    Ok(tell::tell(subject, tell::Rows { records, received, repeats, keys }, cut))
}

/// The consumers in this process's database, by topic: also those without history, which leave only an inbox row.
async fn audience(store: &dyn Store, scope: &Scope) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut audience: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for stored in store.subscriptions(None).await?.into_iter().chain(store.removed_subscriptions().await?) {
        let one = stored.subscription;
        if scope.has_consumer(&one.consumer) {
            audience.entry(one.topic).or_default().insert(one.consumer);
        }
    }
    Ok(audience)
}

async fn keys(store: &dyn Store, subject: &Subject, received: &[ReceivedEvent]) -> Result<Vec<StoredKey>> {
    let mut named: BTreeSet<String> = received.iter().filter_map(|row| row.idempotency_key.clone()).collect();
    for result in received.iter().filter_map(|row| row.result.as_deref()) {
        named.extend(Effect::of_result(result).into_iter().filter_map(|effect| effect.idempotency_key));
    }
    named.insert(match subject {
        Subject::Key(key) => key.clone(),
        Subject::Aggregate(aggregate) => aggregate.id.clone(),
    });
    let named: Vec<String> = named.into_iter().take(limits::STORY_KEYS).collect();
    store.keys_named(&named).await
}
